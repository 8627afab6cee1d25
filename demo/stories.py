"""Short stories: a hero, a place, something that happens, and what comes of it.

A plot is a list of beats, a beat a list of ways to say it. `?` before a beat means that it may be left out. Slots:
{H} the hero, {he} {him} {his} {He} {His} and the same with f for the friend {F}; {kind} what the hero is, {aplace}
'a quiet forest', {inplace} 'in the forest', {place}; {thing}, {athing}; {food}, {onefood}; {other} 'the others'."""

import lexicon as lx
from draw import Draw

OPENINGS = [
    "Once upon a time, there was {akind} named {H} who lived {inaplace}.",
    "Once upon a time, {akind} named {H} lived {inaplace}.",
    "Once there was {akind} called {H}.",
    "There was once {akind} named {H}. {He} lived {inaplace}.",
    "{H} was {akind} who lived {inaplace}.",
    "Long ago, {akind} named {H} lived {inaplace}.",
    "One day, {akind} named {H} was {inaplace}.",
    "{Inaplace} lived {akind} named {H}.",
    "Far away, {inaplace}, there lived {akind}. {His} name was {H}.",
    "One {time}, {H} the {kind} went for a walk {inplace}.",
    "This is the story of {H}, {akind} {inaplace}.",
]
FOLLOWS = [
    "{H} was very {trait}, and everybody liked {him}.", "{He} was {trait} and {trait2}.", "{H} loved {hobby}.", "Every day {he} liked {hobby}.",
    "{H} had {athing} that {he} liked very much.",
    "Most of all, {H} loved {hobby}.", "{He} lived in a {colour} house with a round door.", "Everyone {inplace} knew {H}.",
]
INTRODUCTIONS = [
    "{His} best friend was {F}, {afkind}.", "{He} had a friend named {F}, {afkind}.", "{His} friend was {afkind} named {F}.",
    "{F}, {afkind}, was {his} best friend.", "{He} often played with {F}, {afkind} who lived near by.", "{H} knew {afkind} whose name was {F}.",
    "Next door lived {F}, {afkind}.", "{H} and {F}, {afkind}, did everything together.",
]
# Plots in which the hero meets the friend for the first time.
MEETINGS = {"a new friend", "being lost"}
HOBBIES = ["to sing", "to run", "to paint", "to read", "to dance", "to climb trees", "to swim", "to look at the stars", "to pick flowers",
           "to play with {F}", "to tell jokes", "to bake", "to look for shells", "to listen to the birds", "to build little houses", "to watch the clouds"]
WEATHER = ["It was a {wet} {time}.", "The sun was shining.", "A soft wind was blowing.", "The sky was blue and clear.", "It was cold, but the sun was out.",
           "The birds were singing.", "Little clouds moved over the sky.", "It had rained in the night, and everything was wet.", "Snow lay on the ground.",
           "The leaves were red and yellow.", "It was so warm that nobody wanted to work.", "A thin fog lay over the {place}."]
ENDINGS = [
    "From that day on, they were best friends.", "{H} smiled all the way home.", "That night {H} slept very well.", "And {H} never forgot that day.",
    "They all laughed and had a big dinner.", "{H} was happy, and so was {F}.", "\"What a day!\" said {H}.", "{H} went home, tired but happy.",
    "Since then, {H} and {F} have met every {day}.", "And that is how {H} found a friend.", "In the evening {he} told {his} mother all about it.",
    "The end.", "And they lived happily ever after.", "{F} gave {H} a big hug.", "\"Thank you, {F},\" said {H}.", "{H} and {F} watched the stars until they fell asleep.",
]
FEELINGS_BAD = ["{H} was very sad.", "{H} began to cry.", "Tears ran down {his} face.", "{H} did not know what to do.", "{H} sat down and felt alone.", "\"Oh no!\" cried {H}.", "{His} heart was heavy."]
FEELINGS_GOOD = ["{H} was very happy.", "{H} jumped for joy.", "{H} laughed out loud.", "\"Hooray!\" cried {H}.", "{H} could not stop smiling.", "{His} heart was light again.", "{H} danced around the {place}."]

# name of the theme, words for it in a request, beats
PLOTS: dict[str, list] = {
    "a lost thing": [
        ["One {day}, {H} could not find {his} {thing}.", "One {time}, {H} saw that {his} {thing} was gone.", "But one day {H} lost {his} {thing}.", "{H} had a {colour} {thing}, but one {time} it was gone."],
        FEELINGS_BAD,
        ["{He} looked under the bed, but it was not there.", "{He} looked behind the door and under the table, but found nothing.", "{He} searched the whole house.", "{He} looked in every corner."],
        ["Then {F} came by. \"Why are you so sad?\" asked {F}.", "{F} saw {him}. \"What is wrong?\" {fhe} asked.", "\"I will help you,\" said {his} friend {F}.", "{H} went to {F} and asked for help."],
        ["?", "\"I have lost my {thing},\" said {H}.", "\"My {thing} is gone,\" {H} said.", "{H} told {F} about the {thing}."],
        ["Together they looked {inplace}.", "They went back the way {H} had come.", "They looked and looked until it was almost dark.", "\"Where did you see it last?\" asked {F}. {H} thought about it."],
        ["At last they found the {thing} under a big tree.", "Then {F} saw something {colour} in the grass. It was the {thing}!", "There it was! The {thing} lay behind a stone.", "The {thing} was in a nest, and a bird was sleeping in it."],
        FEELINGS_GOOD,
        ["?", "\"Next time I will put it in its place,\" said {H}.", "After that, {H} always took good care of the {thing}.", "\"Two can find more than one,\" said {F}."],
    ],
    "sharing": [
        ["One {time}, {H} had a basket full of {food}.", "{H} found a tree full of {food}.", "{His} grandmother gave {H} a bag of {food}.", "{H} had made a big plate of {food}."],
        ["\"These are all for me,\" {he} thought.", "{He} wanted to eat them all alone.", "{He} hid them so that nobody could take one.", "\"I will not give any away,\" said {H}."],
        ["Then {F} came along. {FHe} was hungry.", "{F} sat down beside {him} and looked at the {food}.", "\"May I have one?\" asked {F}.", "Soon {F} came by. {FHe} had not eaten all day."],
        ["\"No,\" said {H}, and {F} went away.", "{H} shook {his} head.", "{H} turned around and said nothing.", "\"They are mine,\" said {H}."],
        ["But eating alone was no fun.", "But the {food} did not taste good any more.", "Then {H} saw how sad {F} was.", "{H} ate and ate until {his} stomach hurt."],
        ["So {he} ran after {F} and gave {fhim} half of the {food}.", "\"Come back!\" {he} called. \"There is enough for two.\"", "{H} stood up and put the {food} between them. \"Let us share,\" {he} said.", "\"I am sorry,\" {he} said. \"Please take some.\""],
        ["They sat in the sun and ate together.", "{F} smiled and took one {onefood}.", "The {food} had never tasted so good.", "They ate every last {onefood} and laughed."],
        ["\"Sharing makes everything taste better,\" said {H}.", "{H} learned that sharing is more fun than having.", "The next day {F} brought {food} for {H}.", "After that, {H} always shared."],
    ],
    "a rescue": [
        ["One {time}, {H} heard a small voice. \"Help! Help!\"", "On the way {H} heard somebody cry.", "Suddenly {H} heard a noise {inplace}.", "While {he} was walking, {H} heard a strange sound."],
        ["{F} had fallen into a deep hole.", "{F} was sitting in a high tree and could not get down.", "{F} was stuck between two big stones.", "{F} had fallen into the water and could not swim."],
        ["{H} was afraid, but {he} ran to help.", "\"Do not be afraid,\" called {H}. \"I am coming!\"", "{H} thought quickly.", "{H} looked around for something that could help."],
        ["{He} found a long rope and threw one end to {F}.", "{He} took a long branch and held it out.", "{He} called all {his} friends, and they made a chain.", "{He} fetched a ladder from the farm."],
        ["\"Hold on tight!\" {he} said.", "{He} pulled and pulled with all {his} strength.", "It was hard work, but {he} did not give up.", "Slowly, step by step, it worked."],
        ["At last {F} was safe.", "In the end {F} was free.", "And then {F} was out, wet and cold but safe.", "A moment later {F} stood beside {him}."],
        ["\"You saved me!\" said {F}.", "{F} thanked {him} a hundred times.", "\"You are so brave,\" said {F}.", "{F} hugged {him} and would not let go."],
        ["Everybody {inplace} heard how brave {H} was.", "\"A friend helps a friend,\" said {H}.", "Then they went home and drank hot milk.", "{H} felt strong and warm inside."],
    ],
    "a new friend": [
        ["One day, somebody new came to the {place}. It was {F}, {afkind}.", "One {time}, {H} saw {afkind} who was all alone. {FHis} name was {F}.", "{F}, {afkind}, was new {inplace}.", "In the house beside {H} there lived {afkind} named {F}."],
        ["{F} was shy and did not talk to anyone.", "Nobody played with {fhim}.", "The others said that {fhe} was strange.", "{F} looked different, so nobody spoke to {fhim}."],
        ["{H} felt sorry for {fhim}.", "\"I know how it is to be alone,\" thought {H}.", "{H} thought that this was not right.", "{H} wanted to be kind."],
        ["{He} went over and said hello.", "\"Hello, I am {H}. Do you want to play?\" {he} asked.", "So {he} took {his} {thing} and showed it to {F}.", "{He} gave {fhim} a flower."],
        ["At first {F} said nothing, but then {fhe} smiled.", "{F} looked up. \"Yes, please,\" {fhe} said.", "{F} was so surprised that {fhe} dropped {fhis} hat.", "\"Do you really mean me?\" asked {F}."],
        ["They played {inplace} all day.", "They found out that they both loved {hobby2}.", "{F} knew a game that {H} had never played.", "They built a little house of branches."],
        ["Soon the others came and played too.", "When the others saw it, they wanted to play as well.", "After a while everybody was there.", "The next day all of them came."],
        ["Now {F} was never alone again.", "\"I am glad that you came here,\" said {H}.", "{F} was not shy any more.", "It had only needed one kind word."],
    ],
    "building something": [
        ["One {day}, {H} wanted to build {abuild}.", "{H} had an idea. {He} would build {abuild}.", "\"Today I will make {abuild},\" said {H}.", "{H} had always wanted {abuild}."],
        ["{He} got wood, nails and a hammer.", "{He} looked for everything {he} needed.", "{He} made a plan on a piece of paper.", "First {he} drew a picture of it."],
        ["{He} worked all morning, but then it fell apart.", "But it was harder than {he} had thought, and it broke.", "When it was almost done, it fell down with a crash.", "The first one was crooked and broke in two."],
        ["\"I will never make it,\" said {H}.", "{H} was angry and kicked a stone.", "{H} wanted to give up.", "{H} sat down and looked at the pieces."],
        ["\"Try again,\" said {F}. \"I will help you.\"", "{F} looked at it. \"You need a stronger rope,\" {fhe} said.", "Then {F} came with more wood.", "\"Let us do it together,\" said {F}."],
        ["So they began again, slowly and with care.", "{F} held the wood and {H} used the hammer.", "This time they made it strong.", "They worked until the sun went down."],
        ["In the end the {build} was ready.", "At last it stood there, and it was beautiful.", "And this time it did not break.", "When it was done, they painted it {colour}."],
        ["{H} was proud. \"We did it!\" {he} said.", "\"It is good that I did not give up,\" said {H}.", "Everybody came to look at it.", "They had the best {build} of the whole {place}."],
    ],
    "a storm": [
        ["One {day}, dark clouds came over the {place}.", "In the afternoon the wind became strong.", "Suddenly it grew dark, and it began to rain.", "\"A storm is coming,\" said {F}."],
        ["There was thunder and lightning.", "The rain fell like a river from the sky.", "The wind took hats and leaves and even a chair.", "It was so loud that {H} held {his} ears."],
        ["{H} was far from home.", "{H} and {F} were in the middle of the {place}.", "{H} was afraid and began to run.", "{H} looked for a dry place."],
        ["Then {he} saw a light in a small window.", "They found a cave and sat down in it.", "\"Come in here!\" called {F} from under a big tree.", "There was an old barn, and the door was open."],
        ["There it was warm and dry.", "They told each other stories until the rain stopped.", "An old woman gave them hot soup.", "They sat close together and sang songs."],
        ["After an hour the storm was over.", "Then the rain stopped, and the sun came out.", "When they looked out again, the sky was clear.", "Slowly the thunder went away."],
        ["A big rainbow stood over the {place}.", "Everything was wet and shone in the sun.", "The air was fresh, and the birds sang again.", "The way home was full of water, and they jumped over it."],
        ["\"The storm was not so bad, because you were with me,\" said {H}.", "\"After rain comes sun,\" said {F}.", "{H} was not afraid of storms any more.", "At home {his} mother dried {his} hair and was glad."],
    ],
    "telling the truth": [
        ["One {time}, {H} was playing in the house with a ball.", "{H} ran through the kitchen, although {he} was not allowed to.", "{H} wanted to look at the old vase of {his} mother.", "{H} took the {thing} of {F} without asking."],
        ["Then there was a crash. It was broken!", "It fell on the floor and broke into many pieces.", "Suddenly it slipped out of {his} hands and broke.", "A moment later it lay on the floor, broken."],
        ["{H} wanted to hide the pieces.", "\"Nobody has seen me,\" {he} thought.", "{H} was afraid and hid under the bed.", "First {he} wanted to say that the wind had done it."],
        ["But {he} felt bad and could not eat.", "But a lie felt like a stone in {his} stomach.", "All day long {he} had to think of it.", "{H} could not sleep that night."],
        ["So {he} told the truth. \"It was me,\" {he} said. \"I am sorry.\"", "In the end {he} went and said, \"I broke it. I am very sorry.\"", "\"I have to tell you something,\" said {H}, and {he} told everything.", "At last {he} took all {his} courage and told the truth."],
        ["\"I am glad that you told me,\" was the answer.", "Nobody was angry. \"It is brave to tell the truth,\" they said.", "\"Things can be mended,\" said {his} mother.", "There was a long hug and no angry word."],
        ["Together they put the pieces together with glue.", "They mended it together, and it was almost as good as new.", "{H} worked in the garden to pay for a new one.", "The next day they made a new one together."],
        ["{H} felt light again.", "After that, {H} always told the truth.", "\"The truth is easier than a lie,\" thought {H}.", "And {H} never played there again."],
    ],
    "a race": [
        ["One day there was a big race {inplace}.", "\"I am faster than you,\" said {F}. \"Let us have a race!\"", "{H} and {F} wanted to know who was faster.", "Everybody {inplace} came to see the race."],
        ["They stood side by side and waited for the sign.", "\"One, two, three, go!\" somebody called.", "The winner would get a golden cup.", "The way went around the whole {place}."],
        ["{F} was fast and was soon far ahead.", "At first {H} was the last.", "{F} ran like the wind.", "{H} ran as fast as {he} could."],
        ["But {F} thought that {fhe} had won already and lay down to sleep.", "But in the middle {F} fell over a stone and hurt {fhis} leg.", "{F} laughed and stopped to eat some {food}.", "Then {F} took the wrong way."],
        ["{H} went on step by step and did not stop.", "{H} saw it and stopped.", "{H} never gave up.", "\"Slow and steady,\" {H} said to {himself}."],
        ["In the end {H} was the first, and everybody cheered.", "{H} helped {fhim}, and they walked to the end together.", "{H} came in just before {F}.", "They reached the end at the same time."],
        ["\"Well done,\" said {F}.", "They both got a cup full of {food}.", "\"You were better than I thought,\" said {F}.", "Everyone clapped for a long time."],
        ["\"It is not important who wins,\" said {H}. \"It was fun.\"", "{F} learned that one should not be too proud.", "After the race they shared a big cake.", "From then on they ran together every {day}."],
    ],
    "a garden": [
        ["One day in spring, {H} found a small seed.", "{F} gave {H} a little brown seed.", "{H} wanted to have a garden.", "An old man gave {H} a seed. \"Be patient,\" he said."],
        ["{He} put it into the ground.", "{He} dug a small hole and put the seed in.", "{H} planted it in front of {his} house.", "{He} covered it with earth."],
        ["Every morning {he} gave it water.", "Every day {he} looked, but there was nothing to see.", "The sun shone, and sometimes it rained.", "{He} sang a song for it every evening."],
        ["\"Nothing happens,\" said {H} after a week.", "{F} laughed. \"Nothing will grow there,\" {fhe} said.", "{H} became sad, because nothing came.", "\"Maybe the seed is asleep,\" thought {H}."],
        ["But {he} did not give up.", "But {he} waited and went on.", "\"You must wait,\" said {his} grandmother.", "Still {he} brought water every day."],
        ["Then, one {time}, a small green leaf came out of the ground.", "One day there was a tiny green plant.", "And then something green looked out of the earth.", "After a warm rain, the first leaf was there."],
        ["It grew and grew until it was taller than {H}.", "In summer it was a big {colour} flower.", "Soon it was a tree full of {food}.", "It became the most beautiful flower {inplace}."],
        ["\"Good things need time,\" said {H}.", "{H} gave a flower to everybody {he} knew.", "Even {F} had to say that it was beautiful.", "In autumn {H} had many new seeds, and {he} gave one to {F}."],
    ],
    "a birthday": [
        ["Tomorrow was the birthday of {F}.", "{F} had a birthday, but {fhe} thought that everybody had forgotten it.", "It was {day}, and {F} would soon have a birthday.", "{H} wanted to make {F} a present."],
        ["{H} did not have any money.", "{H} thought about it for a long time.", "\"What could I give {fhim}?\" {H} asked.", "{H} asked all {his} friends for help."],
        ["So {he} made {athing} with {his} own hands.", "{He} baked a big cake with {food}.", "{He} painted a picture of the two of them.", "{He} looked for the most beautiful stone {inplace}."],
        ["{He} put it into a box with a {colour} ribbon.", "They hung up lights and paper stars.", "Everybody brought something to eat.", "It took {him} the whole day."],
        ["In the evening they all hid behind the door.", "When {F} came home, it was dark and quiet.", "{F} opened the door and saw nobody.", "Then {H} knocked at the door."],
        ["\"Surprise!\" they all called.", "\"Happy birthday, {F}!\" said {H}.", "Then the lights went on and everybody sang.", "\"This is for you,\" said {H}."],
        ["{F} was so happy that {fhe} cried a little.", "{F} did not know what to say.", "{F} opened the box and smiled.", "\"You did not forget me!\" said {F}."],
        ["\"This is the best present of all,\" said {F}, \"because you made it.\"", "They danced and ate until late in the night.", "It was the best birthday ever.", "They each got a big piece of cake."],
    ],
    "a noise in the night": [
        ["One night, {H} heard a strange noise.", "It was late, and {H} was in bed. Then there was a noise.", "In the middle of the night {H} woke up.", "{H} could not sleep, because something went knock, knock, knock."],
        ["{H} was very afraid.", "{He} pulled the blanket over {his} head.", "\"Is it a monster?\" {he} thought.", "{His} heart went boom, boom, boom."],
        ["There it was again!", "The noise came closer.", "Something was moving at the window.", "It seemed to come from outside."],
        ["{H} took {his} lamp and {his} courage and got up.", "\"I must be brave,\" {he} said.", "{He} called {F}, and together they went to look.", "{He} went down on the tips of {his} toes."],
        ["Slowly {he} opened the door.", "{He} looked out of the window.", "Step by step {he} came closer.", "{He} held up the lamp."],
        ["It was only a branch that knocked at the window.", "There sat a small wet kitten.", "It was only {F}, who was looking for something to eat.", "It was just a mouse with a nut."],
        ["{H} had to laugh.", "\"So that was my monster!\" said {H}.", "\"You gave me a fright,\" {he} said.", "{H} was so glad that {he} laughed out loud."],
        ["Then {he} went back to bed and slept until morning.", "After that, {H} was not afraid of the dark any more.", "\"Most monsters are small when you look at them,\" thought {H}."],
    ],
    "learning something": [
        ["{H} wanted to learn how to {skill}.", "All {his} friends could {skill}, but {H} could not.", "\"I wish I could {skill},\" said {H}.", "{H} had never learned to {skill}."],
        ["{He} tried it once, and it went wrong.", "The first time {he} tried, everybody laughed.", "But it was very hard.", "{He} tried and failed, and tried again."],
        FEELINGS_BAD,
        ["\"I could not do it at first either,\" said {F}.", "\"Nobody can do it at once,\" said {F}.", "{F} said, \"I will show you how.\"", "\"You only need to practise,\" said {his} grandfather."],
        ["So they practised every day.", "Every {time} {H} practised a little.", "Day after day {he} tried again.", "{F} stayed with {him} and helped."],
        ["After one week it went a little better.", "Slowly {he} got better and better.", "{He} still made mistakes, but fewer each day.", "Sometimes {he} wanted to stop, but {he} did not."],
        ["And one {day}, {H} could {skill}!", "Then, one {time}, it worked.", "Suddenly {he} could do it.", "\"Look! I can {skill}!\" {H} called."],
        FEELINGS_GOOD,
        ["\"Practice makes perfect,\" said {F}.", "Now {H} helps others who want to learn it.", "\"Thank you for your help,\" {H} said to {F}.", "{His} friends clapped and were proud of {him}."],
    ],
    "being greedy": [
        ["{H} saw a tree full of {food}.", "One {day}, {H} found a jar full of {food}.", "{F} said, \"You may take three {food} from my tree.\"", "At the market {H} saw a table full of {food}."],
        ["\"I want them all,\" {he} said.", "{He} did not want three, {he} wanted everything.", "{H} took as many as {he} could.", "{He} filled {his} basket, {his} hat and {his} pockets."],
        ["\"Take only what you need,\" said {F}.", "{F} warned {him}, but {H} did not listen.", "\"That is too much,\" said {F}.", "\"Leave some for the others,\" said {F}."],
        ["On the way home the basket broke.", "{He} ate and ate until {he} could not move.", "The bag was so heavy that it tore.", "{He} could not see the way and fell."],
        ["All the {food} rolled down the hill.", "All night long {his} stomach hurt.", "Everything fell into the river.", "The birds came and took it all."],
        ["Now {H} had nothing.", "{H} sat there and was ashamed.", "\"If only I had listened,\" said {H}.", "{H} was sorry."],
        ["{F} came and gave {him} one {onefood}.", "But {F} was not angry and helped {him} up.", "{F} shared {fhis} own {food} with {him}.", "\"Come,\" said {F}, \"I have one left for you.\""],
        ["\"One is enough when a friend gives it,\" said {H}.", "Since then {H} has only taken what {he} needs.", "{H} had learned {his} lesson.", "\"Next time I will take less,\" {H} promised."],
    ],
    "a dragon": [
        ["On a mountain near the {place} there lived a dragon.", "Everybody was afraid of the dragon in the cave.", "One {day}, a big {colour} dragon flew over the {place}.", "People said that a terrible dragon lived behind the {place}."],
        ["At night they heard it roar.", "It blew smoke and fire.", "Nobody dared to go near it.", "All of them locked their doors."],
        ["\"I will go and talk to it,\" said {H}.", "Only {H} was not afraid.", "{H} wanted to know what was wrong with it.", "{H} took {his} {thing} and went to the cave."],
        ["The dragon sat there and cried big tears.", "\"Go away!\" roared the dragon, but {H} stayed.", "The dragon was holding its foot.", "The dragon looked at {him} with sad eyes."],
        ["\"Why do you roar?\" asked {H}.", "\"What is wrong?\" {H} asked.", "\"Can I help you?\" asked {H}.", "{H} sat down beside it and waited."],
        ["\"I am so alone,\" said the dragon.", "\"I have a thorn in my foot,\" said the dragon.", "\"I am hungry, and everybody runs away from me,\" said the dragon.", "\"I have a cold, and so I blow fire,\" said the dragon."],
        ["So {H} helped it as well as {he} could.", "{H} gave it {food} and warm tea.", "{H} stroked its nose and told it a story.", "{H} took care of it for three days."],
        ["After that, the dragon was a friend of all.", "Since then the dragon has warmed the houses in winter.", "Now the dragon flies with the children over the {place}.", "The dragon smiled, and nobody was afraid any more."],
    ],
    "being lost": [
        ["One {time}, {H} went too far from home.", "{H} followed a {colour} butterfly into the {place}.", "{H} went for a walk and did not look at the way.", "At the market {H} let go of {his} mother's hand."],
        ["Suddenly {he} did not know where {he} was.", "When {he} looked around, everything looked strange.", "All the trees looked the same.", "It became dark, and {H} was lost."],
        FEELINGS_BAD,
        ["Then {afkind} named {F} came along the path.", "Then {he} heard a friendly voice. It was {F}, {afkind}.", "{F}, {afkind}, saw {him}.", "After a while {he} met {F}, {afkind}."],
        ["\"Are you lost?\" asked {F}.", "\"Where do you live?\" {F} asked.", "\"Do not cry,\" said {F}. \"I know the way.\"", "\"Can you help me?\" asked {H}."],
        ["\"I live in the house with the {colour} door,\" said {H}.", "{F} took {him} by the hand.", "They walked along the river and over the bridge.", "{F} looked at the stars and found the way."],
        ["Soon {H} saw the lights of home.", "At last {he} saw {his} own house.", "There was {his} mother, who had looked for {him} everywhere.", "After the last hill {he} knew where {he} was."],
        ["{His} mother hugged {him} and thanked {F}.", "\"I will never go so far alone again,\" said {H}.", "{F} was invited to dinner.", "{H} waved until {F} was gone."],
    ],
    "a treasure": [
        ["One {day}, {H} found an old map in a bottle.", "In an old {thing} {H} found a map.", "{F} came running with a map in {fhis} hand.", "{H} and {F} were looking for a treasure."],
        ["On the map there was a red cross.", "\"Here is a treasure,\" said {H}.", "The map showed the way to a big tree.", "\"Let us go and look for it!\" said {F}."],
        ["They walked over hills and through a river.", "The way was long and full of stones.", "They had to cross an old bridge.", "They counted a hundred steps to the north."],
        ["On the way they were hungry and tired.", "{F} wanted to go home, but {H} said, \"It is not far now.\"", "Once they took the wrong path.", "A crow laughed at them."],
        ["At last they found the place and began to dig.", "Under the tree they dug a deep hole.", "Then they saw the red cross on a stone.", "{H} moved a stone away."],
        ["There was a small box.", "They hit something hard. It was a chest!", "An old chest was lying there.", "And really, there was a box with a lock."],
        ["In it there was no gold, but a letter. \"The treasure is the friend who came with you,\" it said.", "It was full of old toys, and they played all day.", "In it was {athing} of pure gold.", "In it were {food} for everybody, and they had a feast."],
        ["{H} looked at {F} and smiled.", "\"This is the best treasure,\" said {H}.", "They took it home and shared it.", "They hid the map again for somebody else."],
    ],
    "cooking": [
        ["{H} wanted to make a cake for everybody.", "One {day}, {H} cooked soup in a big pot.", "\"Today I will cook,\" said {H}.", "{H} wanted to bake bread."],
        ["But there was no {ingredient} in the house.", "But {he} had no {ingredient}.", "Then {he} saw that the {ingredient} was gone.", "\"I have forgotten the {ingredient}!\" {he} said."],
        ["So {he} went to {F} and asked for some.", "{He} knocked at the door of {F}.", "{F} lived next door, and {H} went there.", "{He} asked everybody, and at last {he} came to {F}."],
        ["\"You can have mine,\" said {F}, \"if I may have a piece.\"", "{F} was glad to help.", "\"I have some,\" said {F}. \"Let us cook together.\"", "{F} had a whole bag of it."],
        ["They mixed everything in a big bowl.", "They stirred and tasted and laughed.", "Soon the whole kitchen was white with flour.", "{F} read the book and {H} stirred."],
        ["After one hour it smelled wonderful.", "Then they waited and looked into the oven.", "The smell went through the whole {place}.", "It got a little black at the side, but that did not matter."],
        ["Everybody who smelled it came to the table.", "They put a long table in front of the house.", "They called all their friends.", "It was enough for all of them."],
        ["\"It tastes best when you eat together,\" said {H}.", "Nothing was left but an empty plate.", "They wanted to do it again every {day}.", "\"It is the best that I have ever eaten,\" said {F}."],
    ],
    "the wind": [
        ["One {time}, the wind took {H}'s {colour} hat.", "A strong wind blew {his} {thing} into the air.", "Suddenly the wind pulled {his} kite out of {his} hand.", "{H} was flying a kite, and then the string broke."],
        ["It flew over the {place} and away.", "It flew higher and higher.", "It danced in the air and was gone.", "It landed on top of a very tall tree."],
        ["{H} ran after it, but the wind was faster.", "{H} jumped, but could not reach it.", "\"Come back!\" called {H}.", "{H} looked up and was sad."],
        ["{F} had seen everything.", "\"I can help,\" said {F}.", "Then {F} came and looked up too.", "{H} asked {F} for help."],
        ["{F} climbed up, branch by branch.", "{F} called a bird, and the bird flew up.", "They followed it to the end of the {place}.", "{F} made a long stick."],
        ["After a while {F} came back with it.", "The bird brought it back.", "There it was, and it was not even wet.", "With one push it fell down into {H}'s arms."],
        ["\"How can I thank you?\" asked {H}.", "{H} thanked {F} with all {his} heart.", "\"Now it is your turn,\" said {H} and gave it to {F}.", "They both laughed about the wind."],
        ["They tied it with a strong rope, and the wind could not take it again.", "Then they flew the kite together.", "That was a windy day.", "From then on {H} held it tight."],
    ],
    "helping an old one": [
        ["One {day}, {H} met an old woman with a heavy bag.", "On the road {H} saw an old man who was very tired.", "An old woman lived alone at the end of the {place}.", "{H} saw an old man who had dropped all his wood."],
        ["Nobody helped.", "Everybody walked by.", "Others laughed, but {H} did not.", "{H} stopped at once."],
        ["\"Can I help you?\" asked {H}.", "\"Let me carry it,\" said {H}.", "{H} took the bag and carried it home.", "{H} picked everything up."],
        ["It was a long way, but {H} did not complain.", "They walked slowly and talked.", "On the way {H} heard many stories of old times.", "{H} was tired, but {he} went on."],
        ["At the door there was a small present for {him}.", "\"You have a good heart,\" was the answer. \"Take this.\"", "\"Take this little {thing},\" {H} heard. \"It brings luck.\"", "{H} got a cup of tea and a piece of cake."],
        ["\"I do not need anything,\" said {H}. \"I was glad to help.\"", "{H} said thank you and ran home.", "{H} was surprised and very glad.", "{H} told {F} about it."],
        ["After that, {H} came every {day}.", "The next day {F} came with {him}.", "Since then they have been friends.", "And when {H} needed help, there was always somebody."],
        ["\"Who helps others is never alone,\" thought {H}.", "It made {him} happy for the whole week.", "And the {thing} really brought {him} luck.", "A little help can be a big present."],
    ],
    "a trip": [
        ["One {day}, {H} and {F} wanted to see the sea.", "\"Let us go on a trip,\" said {H} to {F}.", "{H} and {F} packed a bag with {food} and went off.", "{H} had never been on a boat."],
        ["They went by train and looked out of the window.", "They took a small boat with a {colour} sail.", "They walked until their feet hurt.", "They rode on an old bus that went up and down."],
        ["They saw cows, bridges and a castle.", "On the way they sang songs.", "A fish jumped out of the water and looked at them.", "They met a farmer, and he gave them milk."],
        ["Then they saw that they had left the bag at home.", "Then it began to rain.", "Suddenly the bus stopped and did not go on.", "But the way was longer than they had thought."],
        ["\"What now?\" asked {F}.", "\"It does not matter,\" said {H}.", "They had to laugh.", "{H} had an idea."],
        ["They picked berries and drank from a clear stream.", "They sat under a big leaf and waited.", "A friendly driver took them along.", "They asked a fisherman, and he helped them."],
        ["In the evening they were there at last.", "At last they saw the blue water.", "The sun went down, and everything was red and gold.", "They took off their shoes and ran into the water."],
        ["\"The way was the best part,\" said {F}.", "They brought home a shell for everyone.", "They were tired, but they would do it again.", "At night they dreamed of the sea."],
    ],
}
BUILDS = ["boat", "tree house", "bird house", "snowman", "kite", "sand castle", "bridge", "little cart", "wooden tower", "flying machine"]
SKILLS = ["swim", "ride a bike", "whistle", "read", "sing", "climb", "dance", "fly a kite", "play the flute", "skate", "bake bread", "paint"]
INGREDIENTS = ["sugar", "flour", "salt", "butter", "milk", "honey"]

REQUESTS = ["Tell me a story about {t}.", "Tell me a short story about {t}.", "Write a story about {t}.", "Write a short story about {t}.",
            "Can you tell me a story about {t}?", "I want to hear a story about {t}.", "Please tell me a story about {t}.", "A story about {t}, please.",
            "Give me a story about {t}.", "Could you tell a story about {t}?", "story about {t}", "Make up a story about {t}.", "Do you know a story about {t}?",
            "Tell a story about {t}.", "I would like a story about {t}.", "Write me a story about {t}.", "Please write a story about {t}.",
            "Tell us a story about {t}.", "Can you write a story about {t}?", "Let me hear a story about {t}."]
PLAIN_REQUESTS = ["Tell me a story.", "Tell me a short story.", "Write a story.", "Can you tell me a story?", "Once upon a time", "I want to hear a story.",
                  "Please tell me a story.", "Write a short story.", "Tell me a bedtime story.", "A story, please.", "Tell a story.", "Do you know a story?",
                  "Make up a story.", "tell me a story", "Another story, please.", "Could you tell me a story?", "I would like a story.", "Write me a story.",
                  "Tell us a story.", "Let me hear a story."]


# Ways to ask for a theme after naming the hero.
TAILS = {
    "a lost thing": ["who lost {athing}", "who cannot find {his} {thing}", "and a lost {thing}"], "sharing": ["who does not want to share", "who has too many {food}", "and a basket of {food}"],
    "a rescue": ["who saves a friend", "who is a hero", "and a big danger"], "a new friend": ["who finds a friend", "who meets someone new", "and a new neighbour"],
    "building something": ["who builds {abuild}", "who wants to build {abuild}", "and {abuild}"], "a storm": ["in a storm", "and the rain", "and thunder and lightning"],
    "telling the truth": ["who tells a lie", "who breaks something", "and a broken vase"], "a race": ["who wins a race", "who wants to be the fastest", "and a big race"],
    "a garden": ["who plants a seed", "and a flower", "who has a garden"], "a birthday": ["who has a birthday", "and a birthday party", "and a surprise"],
    "a noise in the night": ["who is afraid of the dark", "who cannot sleep", "and a strange noise"], "learning something": ["who wants to learn to {skill}", "who cannot {skill}", "who learns to {skill}"],
    "being greedy": ["who wants too much", "who is greedy", "who eats too many {food}"], "a dragon": ["and a dragon", "who meets a dragon", "and a terrible dragon"],
    "being lost": ["who gets lost", "who cannot find the way home", "who is lost"], "a treasure": ["who finds a treasure", "and an old map", "who looks for gold"],
    "cooking": ["who bakes a cake", "who cooks soup", "and the best soup"], "the wind": ["and the wind", "and a kite", "who loses a hat in the wind"],
    "helping an old one": ["who helps an old woman", "and an old man", "who is kind to old people"], "a trip": ["who goes to the sea", "on a trip", "who travels"],
}


class Cast:
    """Who and what a story is about, as the slots of its sentences."""

    def __init__(self, r: Draw):
        slots = self.slots = {}
        names = set()
        for p, key in (("", "H"), ("f", "F")):
            pool = r.random()
            if pool < 0.35:
                female = r.chance(0.5)
                kind = "girl" if female else "boy"
            else:
                kind = r.choice(lx.STORY_ANIMALS if pool < 0.8 else lx.STORY_FOLK)
                female = kind in lx.FEMALE_FOLK or (kind not in lx.MALE_FOLK and r.chance(0.5))
            while (name := r.any_name(lx.GIRLS if female else lx.BOYS)) in names:
                pass
            names.add(name)
            he, him, his = ("she", "her", "her") if female else ("he", "him", "his")
            word = r.choice(lx.TRAITS if r.chance(0.5) else lx.SIZES)
            slots |= {key: name, p + "he": he, p + "him": him, p + "his": his, p.upper() + "He": he.capitalize(), p.upper() + "His": his.capitalize(),
                      p + "himself": him + "self", p + "kind": kind, f"a{p}kind": lx.a(f"{word} {kind}")}
        place, prep = r.choice(lx.PLACES)
        thing, build, food = r.choice(lx.THINGS), r.choice(BUILDS), r.choice(lx.FOODS)
        inaplace = f"{prep} {lx.a(r.choice(lx.PLACE_WORDS) + ' ' + place) if r.chance(0.6) else lx.a(place)}"
        trait, trait2 = r.sample(lx.TRAITS, 2)
        slots |= {"place": place, "inplace": f"{prep} the {place}", "inaplace": inaplace, "Inaplace": inaplace[0].upper() + inaplace[1:],
                  "thing": thing, "athing": lx.a(thing), "build": build, "abuild": lx.a(build), "food": food, "onefood": lx.ONE_FOOD[food],
                  "skill": r.choice(SKILLS), "ingredient": r.choice(INGREDIENTS), "trait": trait, "trait2": trait2, "size": r.choice(lx.SIZES[:4]),
                  "wet": r.choice(["cold", "warm", "rainy", "sunny", "windy", "quiet"])}
        slots["hobby"] = r.choice(HOBBIES).format_map(slots)
        slots["hobby2"] = r.choice(HOBBIES[:9])


def story(r: Draw, theme: str = "", chapters: int = 1, cast: Cast | None = None) -> str:
    """A story of one or more plots with the same cast."""
    slots = (cast or Cast(r)).slots
    theme = theme or r.choice(list(PLOTS))
    beats = [OPENINGS] + [FOLLOWS] * r.choice([0, 1, 1, 2])
    if theme not in MEETINGS:
        beats.append(INTRODUCTIONS)
    if r.chance(0.3):
        beats.append(WEATHER)
    beats += PLOTS[theme]
    for _ in range(chapters - 1):
        beats.append(["The next day, the sun was shining again.", "A week later, something else happened.", "But that was not all.", "The next morning, {H} met {F} again.",
                      "Some time later, {H} had a new idea.", "After that, everything was quiet for a while."])
        beats += PLOTS[r.choice([other for other in PLOTS if other != theme and other not in MEETINGS])]
    beats.append(ENDINGS)
    said: list[str] = []
    for beat in beats:
        if beat[0] == "?":
            if r.chance(0.5):
                continue
            beat = beat[1:]
        line = r.choice(beat)
        while line in said:
            line = r.choice(beat)
        said.append(line)
    text, paragraph = "", 3 + r.randrange(3)
    for i, line in enumerate(said):
        # Words that may change from line to line.
        slots |= {"day": r.choice(lx.DAYS), "time": r.choice(["morning", "evening", "day", "afternoon"]), "colour": r.choice(lx.COLOURS)}
        gap = "" if i == 0 else "\n\n" if chapters > 1 and i % 9 == 8 else " "
        text += gap + line.format_map(slots)
    return text


def asked(r: Draw) -> tuple[str, str]:
    """A request for a story, and the story."""
    chapters = 2 if r.chance(0.12) else 1
    if r.chance(0.25):
        return r.say(PLAIN_REQUESTS), story(r, chapters=chapters)
    cast = Cast(r)
    s = cast.slots
    theme = r.choice(list(PLOTS))
    topics = [(3, lx.a(s["kind"])), (1, f"{s['akind']}"), (2, f"{lx.a(s['kind'])} named {s['H']}"), (2, s["H"]), (1, f"{s['H']} and {s['F']}"),
              (2, theme), (1, f"{lx.a(s['kind'])} and {lx.a(s['fkind'])}")]
    (topic,) = r.choices([t for _, t in topics], [w for w, _ in topics])
    if topic != theme and r.chance(0.3):
        topic += f" and {theme}" if r.chance(0.4) else " " + r.choice(TAILS[theme]).format_map(s)
    elif r.chance(0.2):
        topic += f" {s['inaplace']}"
    return r.say(REQUESTS, t=topic), story(r, theme, chapters, cast)
