"""Small talk put together from parts: `{a|b}` stands for one of the alternatives, which may be nothing."""

import re

from draw import Draw

BEFORE = "{|||||||Ah, |Oh, |Well, |Hm, |Ok, |Great, |Alright, |Hey, |Wow, |And |So |Now |Actually, |Listen, |Oh well, |Right, |Fine, }"
AFTER = "{|||||||, friend|, my friend| today| now| :)|...|!!|, dear|, little one|, buddy|, sunshine|, computer|, dear model|, you|, old friend|, mate}"
DONE = "{made|built|created|trained|written|programmed|designed|developed|invented|produced|taught}"
DID = "{made|built|created|trained|wrote|programmed|designed|developed|invented|produced|taught|brought up}"
TALKING = "{talking to|talking with|writing to|writing with|speaking to|speaking with|chatting with|dealing with|in contact with}"
WORK = "{go|leave|go to bed|sleep|go home|work|stop|eat|catch my bus|go to school|say goodbye|run|go to work|get up early tomorrow|cook dinner|leave you|do my homework|take a nap|finish}"
SAY = "{who you are|what you are|your name|what your name is|who I am " + TALKING + "|what I should call you|what kind of thing you are|whether you are a person}"
DO = "{what you can do|what you know|what you are good at|what you can help with|what I can ask you|how you can help|what you are for|how to use you|what is possible|your skills|your abilities}"
THINGS = "{stuff|things|kind of stuff|kinds of things|sort of things|sort of questions|tasks|topics|subjects|questions|problems|work}"
ABOUT = "{answering|explaining|listening|being here|talking to me|your patience|the help|the information|telling me|your time|trying|everything|showing me|the answer|the nice story|the sum|helping out|saying that|the fun|being kind|that one}"

HELLO = [
    "{Salutations|Aloha|Ahoy|Welcome|Morning|Evening|Good morning|Good evening|Good afternoon|Hello|Hi|Hey|Hiya|Howdy|Hello world|Yo|Sup|Heyo|Hi everybody|Good day|Top of the morning|A very good morning}" + AFTER,
    "{I {wanted|want|came|just came|am here|only wanted|would like} to say|Just saying|Let me say|I say|I came by to say|Here to say} {hello|hi|good morning|good evening|a quick hello|hey}" + AFTER,
    "{Greetings|Hello|Regards|A big hello|Hi|Good wishes|Best greetings} from {Paris|Berlin|Rome|my house|the kitchen|school|the sea|Tokyo|Madrid|work|the garden|Canada|far away|my bed}" + AFTER,
    "{Good|Nice|Great|Lovely|So good|Wonderful} to {see|meet|have|find|hear} you{| here| again| at last| there}" + AFTER,
    "{Hello|Hi|Hey|Good morning|Good evening}{|,} {sunshine|little one|small friend|dear|beautiful|stranger|neighbour|champion|sweet model|clever thing|everyone|all|partner|pal|boss|captain|there you|wonderful model}{|!|.}",
    "{|Hello. |Hi, |Hey, }{is anybody|is anyone|is somebody|is someone|are you|who is|anyone|anybody|somebody} {there|here|at home|in there|listening|awake|online}?",
    "{What a|It is a|Such a} {lovely|nice|beautiful|wonderful|fine|great} {day|morning|evening|afternoon}{|,|!} {hello|hi|good day to you|isn't it|my friend|and hello|hey}" + AFTER,
    "{Here I am|I am here|I am back|Me again|It is me|It's me again|I have come back|Look who is here|Guess who|Knock knock}{, hello|, hi|! Hello|. Hi|! Good morning|, hey}" + AFTER,
]
FINE = [
    "{|Hello, |Hi, |Hey, |Hey you, |Good morning, |So, |Hi there, |Hello friend, |And }how {are|is} {you|things|everything|life|it all|your day|your evening|the day} {|going|doing|going today|feeling|today|tonight|now|this morning|this evening}?",
    "{|Hello, |Hi, |Hey, |Hi there little one, }how {do you feel|are you feeling|do you do|have you been|are you holding up|was your day|was your night|did you sleep|goes it|goes your day|is your mood}{| today| now| tonight}?",
]
THANKS = [
    "{Thank you|Thanks|Many thanks|Thanks a lot|Thank you so much|Big thanks|A thousand thanks|Cheers|I thank you|Thx} for " + ABOUT + AFTER,
    "{I appreciate|I really appreciate|I value|I like} {it|that|your help|your answer|the help|what you did|your effort|this}" + AFTER,
    "{You|This|That|It} {helped me a lot|was kind|was very helpful|was useful|has been a great help|was good of you|is all I needed|was just what I needed|saved my day|made me happy|was so nice}, {thanks|thank you|thx|many thanks}{|!|.}",
    "{I am|I'm} {grateful|very grateful|so thankful|thankful|thankful for it|in your debt}" + AFTER,
    "{Thank you|Thanks|thanks|thank you|Cheers}, {you {are|were|have been} {kind|helpful|very helpful|a great help|so nice|great|wonderful|a friend}|that {was|is} {great|good|perfect|all|enough|nice|helpful|clear|wonderful}|I {understand|see|get it|learned something|am happy} now}" + AFTER,
    "{Much appreciated|Cheers|How kind|How nice of you|That is kind of you|Very kind|Most kind|Bless you|Much obliged}" + AFTER,
]
BYE = [
    "{I must|I have to|I need to|I should|I want to|I will|I am going to|It is time to|Time for me to|Now I must|Sorry, I have to|We have to} " + WORK + "{ now| soon| already|}{, bye|, goodbye|, good night|, see you|. See you later|. Take care|. Bye|, until tomorrow|}{|.|!}",
    "{Bye|Goodbye|Good night|See you|So long|Farewell|Take care|Until then|Ciao|Later|Bye bye|Till tomorrow|Have a good one}{|, | }{see you {soon|next week|tomorrow|on Monday|around|again}|sleep well|have a nice day|until next time|my friend|take care|dear model|I will be back|for today|and thank you|little one}{|!|.}",
    "{That is|This is|That was|It was} {all|enough|it|everything|nice|fun} for {today|now|me|this evening}{, bye|, goodbye|, good night|, see you|}{|.|!}",
    "{We will talk|I will come back|Let us talk|I will see you|We will meet|I will write} {again|later|tomorrow|next week|soon|another day}{, bye|, good night|, see you|}{|.|!}",
    "{I am|I'm} {leaving|off|off to bed|going home|going|done for today|tired and going to bed|out}{ now|}{, bye|, good night|, see you|, goodbye|}{|.|!}",
]
WHO = [
    "{May|Can|Could|Might|Would you mind if} I {know|ask|learn|hear|find out} " + SAY + "?",
    "{I would like to know|I want to know|Tell me|Please tell me|Do you mind telling me|Could you tell me|Would you tell me|Say|Let me know|Can you explain|I wonder|I forgot|Remind me} " + SAY + "{|?|.}",
    "{Who|What|Who exactly|What exactly|Who the heck} {is it that I am|am I|is it I am|are we|do you think I am} " + TALKING + "{| here| now| right now| today}?",
    "{Are you|Is this|So you are|You are|Am I talking to|Is it} {a|some kind of|just a|really a|only a|perhaps a} {bot|robot|program|machine|person|human|real human being|computer|chatbot|language model|piece of software|smart machine|living thing|kind of robot|big model|small model|real person|man or a machine}{| or not| or a person| after all}?",
    "{What is|What's|What was|And what is|May I ask what is} your {name|name again|real name|full name|first name|nature|identity}{|, please|, friend}?",
    "{How|What} {should I|shall I|do I|can I|may I|do people|do they|does one} call you{| then| please| again}?",
    "{Is this an AI|Are you an AI|Is this artificial|Is there a human|Is this a real conversation|Is a person writing this|Does a human answer here|Are you real|Are you alive|Are you like ChatGPT|Are you GPT|Do you have a name}{| or a human| or something else| or a program|}?",
]
WHAT = [
    "{What|Which} " + THINGS + " {can|do|could|would} you {know|answer|do|talk about|help with|understand|offer|handle|know about|solve|be able to answer}{| for me|, please| at all}?",
    "{What|In what|Which things} are you {good at|best at|able to do|useful for|capable of|made for|here for|trained for|strong in}{|, friend|, actually| then}?",
    "What {would|do|can} you say {you are good at|you can do|you know|you are best at|are your skills}?",
    "{Tell me|Show me|Explain|Please explain|I want to know|Give me an overview of|Describe|List|Give me a list of|Write down|Help me understand|I wonder} " + DO + "{|.|, please|?}",
    "{What|Which} {are|would be} your {skills|abilities|talents|limits|functions|features|strengths|capabilities|uses|tricks|best skills|options}?",
    "{How|In what way|In which way|With what|With which things} {can|could|do|may|would} you {help|assist|support|serve|be of help to} {me|us|people|a child|somebody like me}{| today| here|}?",
    "{What|Which} {help|kind of help|support|service|use} {can you give|do you offer|can I expect|is there|may I expect from you|do I get from you}?",
    "{How does this work|What is this for|What is this thing|What do I do here|What happens here|What now|How do I start|Where do I begin|What should I write|What should I say|What are the rules|Give me some examples|Any ideas what to ask|What is there to do}{| here|, please}?",
]
MADE = [
    "{Who|Which people|What team|Which company|Who were the people that|Who was it that|What kind of people|Whose team|Which person|Who are the ones who} " + DID + " you{| first| and why| back then|}?",
    "{Tell me|I want to know|Please explain|Do you know|Can you say|Could you tell me|I would like to hear|Explain} {who " + DID + " you|how you were " + DONE + "|where you come from|when you were " + DONE + "|by whom you were " + DONE + "}{|.|, please|?}",
    "{When|Where|How|Why|By whom|On what|With what} were you " + DONE + "{|, please|, little one}?",
    "{How {big|large|small|heavy|old} are you|How many {weights|parameters|layers|numbers} do you have|How long did your training take|What is your {size|origin|age|training|history|source|background}|Where do you {come|stem} from|Who is your {maker|father|mother|boss|owner|author|creator}|Who owns you|Who pays for you}{| then|, please|}?",
]


def expand(r: Draw, pattern: str) -> str:
    """The pattern with an alternative chosen everywhere."""
    while "{" in pattern:
        pattern = re.sub(r"\{([^{}]*)\}", lambda found: r.choice(found[1].split("|")), pattern)
    return pattern


def phrase(r: Draw, patterns: list[str]) -> str:
    """One of the phrases that the patterns make."""
    text = expand(r, BEFORE + r.choice(patterns)).replace("  ", " ").replace(" ?", "?").strip()
    return text[0].upper() + text[1:] if r.chance(0.8) else text
