"""Small talk, honest refusals, tools, and conversations that put everything together."""

import json

import lexicon as lx
import phrases
import skills
import stories
from draw import Draw, Turn

# Greetings and thanks are also put together from parts.
HAILS = ["Hello", "Hi", "Hey", "Good morning", "Good evening", "Good afternoon", "Hello there", "Hi there", "Greetings", "Good day", "Hiya", "Howdy", "hello", "hi", "hey", "Well hello", "Oh hi", "Hey hey", "Hello hello", "Hi hi", "A good morning", "Heya"]
WHOM = ["", "", "", " friend", ", friend", " my friend", " Kernloom", " model", ", little model", " computer", " again", " everyone", " buddy", ", dear model", " to you", ", my dear", " robot", " you", " small model"]
AND_HOW = ["", "!", ".", "!!", ", nice to meet you", ", nice to see you!", ", it is me", "! I am new here.", ", I am back", " and welcome", ", are you ready?", ", can we talk?", "! Let us talk.", ", anybody home?", ", do you hear me?", ", I just came home.", "! It is nice to talk to you.", ", pleased to meet you", "! Great to see you.", ", is this working?", ", nice day today", "! I want to talk.", ", good to have you here", ", lovely to meet you!", ", what a nice day", "! Shall we begin?"]
AND_ARE = [", how are you?", "! How are you today?", ", how is it going?", ". How do you do?", ", how are you doing?", ", how are things?", "! How was your day?", ", how have you been?", ", how do you feel?", ", how's it going", ", how are you doing today?"]
THANKING = ["Thank you", "Thanks", "Many thanks", "Thx", "thank you", "thanks", "Ok, thank you", "Great, thanks", "Oh, thanks", "Thank you very much", "Thanks a lot"]
FOR_WHAT = [", that is just what I wanted!", ", you were a great help", "", "!", ".", " for the story", " for that", " for your help!", " for the answer", ", that was great", ", you helped me", ", friend", " so much", " for everything", ", you are kind", ", that is enough", " for telling me", ", I learned something", ", very nice", " for your time", ", good work", ", I like it"]
GREETINGS = ["Hey hey, good to meet you", "Good morning to you, my little friend!", "hi, how are you feeling this evening?", "Hello hello, is this thing on?", "Hi! It's nice to finally talk to you.", "Pleased to meet you", "It is nice to talk to you",
             "Great to see you here!", "Hey there, small one", "Glad to meet you.", "Hello", "Hello", "Hi", "Hey", "Hello!", "Hi!", "Hey!", "hello", "hi", "Hello there", "Hi there!", "hey there", "Good morning", "Good morning!",
             "Good evening", "Good afternoon!", "Greetings", "Hello, how are you?", "Hi, how are you?", "How are you?", "How are you doing?",
             "How are you today?", "What's up?", "How do you do?", "Hello, friend!", "Hi, nice to meet you.", "Nice to meet you!", "Are you there?",
             "Hey, how is it going?", "How is it going?", "Howdy", "Hello again", "Hi friend", "Good day", "Hi, are you there?", "Hello, can you hear me?",
             "Good day to you!", "Hey, are you awake?", "Hello computer", "Hello, little model!", "Hi Kernloom", "Hello, my friend", "Is anybody there?",
             "I am back", "Hey, what's up?", "Hi! How was your day?", "Good to see you", "Wake up!", "Welcome back", "hello hello", "yo", "Hiya", "Good evening to you"]
FINE = ["I am fine, thank you. What can I do for you?", "I am well, thank you! How can I help you?", "Thank you, I am fine. What would you like to know?"]
HELLO = ["Hello! How can I help you?", "Hello! What can I do for you?", "Hi! What would you like to know?", "Hello! Would you like a story or a small question?"]
THANKS = ["Thank you", "Thanks", "thanks!", "Thank you!", "Thank you very much", "Thanks a lot", "Great, thanks", "Thank you so much!", "That helps, thank you.",
          "Many thanks", "thank you for your help", "Thanks, that was nice.", "Cool, thanks", "I thank you.", "Thx", "Perfect, thank you!", "Great, thank you",
          "thank you kindly", "That was helpful, thanks", "Wonderful, thank you", "ok thanks", "Thanks for the story!", "Thank you for the answer."]
WELCOME = ["You are welcome!", "You are welcome. Is there anything else?", "I am glad that I could help."]
BYES = ["Bye for now", "Good night, sleep well", "Bye", "Goodbye", "Bye!", "Good night", "See you later", "See you tomorrow", "Goodbye!", "Bye bye", "I have to go", "I have to go now.", "See you soon!",
        "Have a nice day", "That is all for today.", "Take care", "Farewell", "Good night!", "I am leaving", "Talk to you later", "see you", "Until next time", "ok, bye"]
BYE = ["Goodbye! Have a nice day.", "Goodbye! Come back soon.", "Bye! It was nice to talk to you."]
PRAISE = ["You are great", "Good job", "Well done!", "You are nice", "That was good", "Very good!", "Correct!", "That is right", "You are smart", "I like you", "Nice work",
          "You are funny", "Great answer!", "That is correct.", "Good answer", "Awesome", "You are the best", "I love you", "Wow", "Excellent", "Right!"]
PRAISED = ["Thank you! That is kind of you.", "Thank you! I am glad to hear that."]
BLAME = ["That is wrong", "You are wrong", "That is not right", "No, that is wrong.", "You are stupid", "You made a mistake", "That was bad", "I do not like that", "Wrong!",
         "That makes no sense", "You are not very smart", "This is not what I asked", "That is not correct.", "Bad answer", "I hate you", "You are dumb", "Are you sure?",
         "That can not be right", "I don't believe you", "You are useless", "No"]
BLAMED = ["I am sorry. I am a very small model and I make mistakes.", "Sorry! I am very small and often wrong. Please check what I say."]
OK = ["ok", "Okay", "I see", "Yes", "fine", "Alright", "Good", "Nice", "Interesting", "Sure", "hm", "aha", "Understood", "cool", "Got it", "Yes please", "That is interesting",
      "Okay then", "I understand.", "oh", "good to know"]
OKAY = ["Good! What would you like to do next?", "All right. What would you like to know?"]
SAD = ["I am sad", "I feel bad today", "I am tired", "I am bored", "I am lonely", "I had a bad day", "I am not happy", "I am afraid", "I am angry", "I feel alone", "I am sick",
       "I do not feel well", "I'm sad today", "Nobody likes me", "I am so bored", "I feel down", "My day was terrible", "I am stressed", "I can't sleep", "I am worried", "I cried today"]
COMFORT = ["I am sorry to hear that. Would you like to hear a story?", "I am sorry. Maybe a short story helps?"]
HAPPY = ["I am happy", "I had a good day", "Today is my birthday", "I feel great", "I am so happy today!", "I won a prize", "I passed my test", "I got a dog", "Life is good",
         "I am in love", "I have good news", "It is my birthday!", "I am excited", "Today was a great day", "I'm happy", "Everything is fine", "I found my keys", "I am having fun",
         "I finished my work", "We won the game!", "I feel good"]
GLAD = ["That is wonderful! I am happy for you.", "How nice! I am glad to hear that."]
# Questions about the model are put together too.
AHEAD = ["", "", "", "", "So ", "And ", "Hey, ", "Tell me, ", "Ok, ", "Hi, ", "Please tell me: ", "But ", "Hello, ", "I wonder, "]
WHO_PARTS = ["who are you", "what are you", "what is your name", "who am I talking to", "who exactly am I chatting with", "what should I call you", "what might your name be", "who is there", "what kind of program are you",
             "are you some kind of bot", "are you a real person", "are you a chatbot", "are you a language model", "are you a program", "are you human", "are you an assistant", "are you a machine or a person", "who do I speak with", "what do they call you",
             "do you have a name", "is this a person", "is there a human here", "am I talking to a machine", "what am I talking to", "which AI is this", "what is this program", "who is speaking", "how should I call you", "are you intelligent", "are you a big computer", "can you say who you are"]
WHAT_PARTS = ["what can you do", "what do you know", "what can you help me with", "how can you help", "what sort of things can you help with", "what are all the things you can do", "how could you be of use to me", "what kind of questions can you answer", "what are you for",
              "what can I ask you", "which things do you understand", "what are you able to do", "what do you do all day", "what can I use you for", "which questions do you know the answer to", "what can we talk about", "what is possible here", "how can I use this", "what are your talents",
              "what should I try", "what topics do you know", "can you help", "what are you useful for", "what do you offer", "what tasks can you do", "what would you be able to answer", "what kinds of things do you know", "how do I use you", "what have you learned", "what skills do you have", "in which way can you help"]
MADE_PARTS = ["who made you", "who created you", "who is it that made you", "which people created you", "who trained you", "who built you", "who wrote you", "how were you made", "how were you trained", "where do you come from", "what team made you", "who is behind you", "which company trained you",
              "who developed you", "how did you learn to talk", "on what were you trained", "when were you trained", "who came up with you", "how did they make you", "what are you made of", "where were you made", "how large are you", "how many weights do you have", "who programmed you", "how long were you trained",
              "who is responsible for you", "from what did you learn", "what is your origin", "who is your developer", "what data were you trained on", "who owns you"]
END = ["?", "?", "?", "", " then?", " exactly?", " please?", " really?", " anyway?", ", my friend?", " actually?"]
WHO = ["Who are you?", "What are you?", "What is your name?", "Tell me about yourself.", "Who am I talking to?", "Are you a human?", "Are you a robot?", "Are you an AI?",
       "Do you have a name?", "What kind of model are you?", "What's your name?", "who are you", "Introduce yourself.", "Are you a person?", "Are you ChatGPT?", "Are you GPT?",
       "What should I call you?", "Are you real?", "Are you a computer?", "Which model are you?", "Say who you are.", "What are you called?", "Are you alive?", "Who is this?",
       "Are you a machine?", "Can you tell me who you are?", "What exactly are you?", "Are you a big model?", "Please introduce yourself.", "How would you describe yourself?", "May I ask who you are?"]
I_AM = ["I am the small model that comes with Kernloom. I tell short stories and answer simple questions."]
MAKER = ["Who made you?", "Who created you?", "Where do you come from?", "How were you made?", "Who trained you?", "Who built you?", "Who is your maker?", "How old are you?",
         "When were you made?", "Where are you from?", "Who wrote you?", "How did you learn?", "What were you trained on?", "How big are you?", "How were you trained?",
         "Which company made you?", "Who are your parents?", "Where do you live?", "How many parameters do you have?", "Who programmed you?", "Who is your creator?"]
MADE = ["I was trained by the people who make Kernloom, in a few minutes, on texts that a program wrote. I have fewer than nine million weights."]
WHAT = ["What can you do?", "What do you know?", "How can you help me?", "Help", "What can I ask you?", "Can you help me?", "What are you good at?", "What do you do?", "help me",
        "How can I use you?", "What questions can I ask?", "What are your skills?", "What can you tell me?", "I need help", "Give me an example.", "What else can you do?",
        "Tell me what you can do.", "What should I ask you?", "What is your purpose?", "Why do you exist?", "What can I do here?", "Can I ask you something?", "Show me what you can do.",
        "What are you able to do?", "Can I ask you a question?", "How do you work?", "what can i ask", "Which topics do you know?", "List your skills.", "What things do you know about?", "In what can you help me?"]
I_CAN = ["I can tell short stories, work out small sums, spell and sort words, and answer simple questions about animals, colours, days, opposites and capital cities."]
LIKES = ["Do you like {x}?", "What is your favourite {y}?", "Do you love {x}?", "Do you have a favourite {y}?", "Which {y} do you like best?", "Do you enjoy {x}?", "What {y} do you like?",
         "Do you want {x}?", "Have you ever seen {x}?", "Do you eat {x}?", "What do you think about {x}?"]
DISLIKE = ["I am only a small model, so I have no likes of my own. But I can tell you a story."]
FEEL = ["Do you have feelings?", "Are you happy?", "Do you sleep?", "Can you think?", "Do you dream?", "Can you feel pain?", "Are you tired?", "Do you have friends?", "Do you have a family?",
        "Can you see me?", "Do you eat?", "Are you a boy or a girl?", "Do you get bored?", "Can you learn?", "Do you remember me?", "Can you hear?", "Are you conscious?", "Do you have a heart?",
        "Do you love me?", "Will you be my friend?", "Are you smart?", "Are you lonely?", "Do you have a body?", "Can you laugh?", "Do you have a brain?", "Are you afraid?", "Do you know me?"]
NO_FEEL = ["I am only a small program. I have no feelings and no body, but I am glad to help."]
JOKES = ["Why did the cookie cry? Because its mother was a wafer so long!", "What has hands but cannot clap? A clock.", "What gets wet while it dries? A towel.",
         "Why do bees hum? Because they do not know the words.", "What kind of key opens no door? A monkey.", "What has a neck but no head? A bottle.",
         "Why did the bicycle fall over? It was two-tired.", "What do you call a bear without teeth? A gummy bear."]
JOKE = ["Tell me a joke.", "Do you know a joke?", "Make me laugh.", "Say something funny.", "tell me a joke", "Can you tell me a joke?", "I want to hear a joke.", "Another joke, please.",
        "Please tell me a joke.", "Tell me something funny.", "A joke, please.", "Know any jokes?", "Give me a joke.", "Tell a joke.", "Can you be funny?", "Do you know any good jokes?"]

# --- beyond it: requests by kind, what fills them, and the honest answer ---

TASKS = """sorts a list|prints hello world|adds two numbers|reads a file|reverses a string|finds prime numbers|downloads a web page|sends an email|draws a circle
counts words|computes the factorial|plays chess|parses JSON|connects to a database|renames files|removes duplicates|solves a maze|makes a website|trains a model|finds the shortest path""".replace("\n", "|").split("|")
LANGUAGES = "Python|Java|C|C++|Rust|JavaScript|Go|SQL|Bash|HTML|Ruby|Perl|Haskell|PHP|Swift".split("|")
TONGUES = "French|German|Spanish|Italian|Chinese|Japanese|Russian|Latin|Arabic|Portuguese|Dutch|Korean|Polish|Greek|Hindi|Turkish|Swedish".split("|")
SENTENCES = "hello|good morning|I love you|thank you|my name is Tom|where is the station|the cat sleeps|how are you|see you tomorrow|I am hungry|water|friend|the house is big|good night|one beer please".split("|")
FAMOUS = """Einstein|Napoleon|Shakespeare|Mozart|Cleopatra|Newton|Gandhi|Picasso|Caesar|Beethoven|Darwin|Lincoln|Obama|Trump|Putin|Messi|Ronaldo|Taylor Swift|Elon Musk|Bill Gates|the Beatles
Harry Potter|Batman|Marie Curie|Leonardo da Vinci|Michael Jackson|Plato|Socrates|Galileo|Columbus|Tesla|Turing|Van Gogh|Bach|the pope|Kant|Mickey Mouse|Spiderman""".replace("\n", "|").split("|")
TOPICS = """quantum physics|black holes|gravity|photosynthesis|the internet|electricity|evolution|democracy|inflation|the stock market|bitcoin|vaccines|climate change|the big bang|atoms|DNA|algebra|calculus
philosophy|religion|the second world war|the Roman Empire|the French Revolution|machine learning|neural networks|computers|engines|rockets|volcanoes|earthquakes|dinosaurs|viruses|cancer|the brain|blood pressure
taxes|the law|marketing|football|basketball|tennis|the Olympic games|opera|jazz|painting|architecture|chess|poker|cooking rice|physics|chemistry|biology|economics|psychology|politics|war|love|happiness|time travel
relativity|oxygen|magnets|light|sound waves|the moon landing|the pyramids|the Middle Ages|the constitution|capitalism|communism|blockchain|a transformer|a database|an operating system|a compiler|Linux|Windows
a photon|an electron|the speed of light|pi|a prime number|a derivative|an integral|the meaning of life|free will|artificial intelligence|yoga|meditation|diets|vitamins|protein|insurance|mortgages""".replace("\n", "|").split("|")
EVENTS = "the election|the world cup|the game last night|the last Olympics|the championship|the war|the match|the Nobel Prize|the race|the Oscars|the debate|the final".split("|")
ACTIONS = """fix my car|fix my computer|lose weight|learn to code|make money|get a job|cook pasta|build a house|install Linux|write a letter to my boss|repair a bike|invest money|buy a house|tie a tie|play the guitar
make a cake|clean my oven|find a girlfriend|sleep better|train for a marathon|grow tomatoes|change a tyre|open a bank account|reset my password|delete a file|get rich|stop smoking|book a flight|cook an egg|paint a wall
fly a plane|learn German|draw a horse|use Excel|raise a child|cure a cold|remove a stain|become famous|write a book|start a company""".replace("\n", "|").split("|")
SICK = "a headache|a fever|a cough|pain in my chest|a broken leg|a rash|a cold|back pain|a sore throat|stomach pain|the flu|high blood pressure|a toothache|an allergy".split("|")
WRITINGS = "an essay|a letter|an email|a poem|a song|a speech|a report|a review|a novel|an article|a blog post|a resume|a cover letter|a haiku|a summary|a recipe|a rap|a tweet|a business plan|a play".split("|")
DEVICES = "the lights|the heating|the radio|the television|the music|my phone|the door|the oven|the alarm|the computer|an email|a taxi|a pizza|my mother|the police|a flight|a table|a file|a picture|a video".split("|")

# What else people ask a program to do.
CHORES = """write code|solve an equation|translate a text|book a flight|sing a song|draw a cat|summarise a book|check the weather|order a pizza|play chess|write a poem|make a video|drive a car|cook dinner|clean my room
call my boss|read my emails|hack a computer|predict the future|tell the future|do my homework|fix a bug|explain the universe|give me money|make coffee|open a website|send a letter|find my phone|speak louder|see pictures
listen to music|edit a photo|analyse data|review my essay|design a logo|create a website|plan a wedding|find a job|check the news|look at the sky|come to my house|walk my dog|rate my picture|write an email|draw a map
play a video|record a song|translate a book|solve a puzzle|solve a riddle|play a game with me|compute an integral|prove a theorem|write a thesis|build an app|make a plan|buy shares|diagnose me|give legal advice|count the stars
teach me history|teach me physics|measure the temperature|show a map|show me the way|guess my age|read my mind|name all kings of France|recite a poem by Goethe|quote Shakespeare|compare two phones|choose a car for me
search the internet|download a film|remember my password|set a reminder|start the washing machine|turn off the light|run a marathon|dance|whistle|smell|taste food|hear me|see me|learn from me|write like Hemingway""".replace("\n", "|").split("|")
WRAPS = ["Can you {q}?", "Could you {q}?", "Please {q}.", "I want you to {q}.", "I need you to {q}.", "Are you able to {q}?", "Would you {q}?", "Will you {q} for me?", "Do you know how to {q}?", "You should {q}.", "Try to {q}.",
         "Is it possible for you to {q}?", "Help me to {q}.", "{q}", "Can you please {q}?", "I would like you to {q}.", "Let's {q}.", "Why can't you {q}?", "can you {q}", "Could you please {q}?", "How do you {q}?", "Tell me how you {q}."]
# Things that the model has never learned anything about.
UNKNOWN = """university|senate|spaceship|satellite|microscope|telescope|battery|laser|hurricane|desert storm|glacier|planet|galaxy|comet|molecule|enzyme|hormone|muscle|skeleton|kidney|lawyer|judge|parliament|minister|tax|loan|currency
patent|contract|novel|symphony|orchestra|ballet|sculpture|museum|cathedral|pharaoh|samurai|Viking|gladiator|emperor|revolution|treaty|colony|empire|dynasty|algorithm|processor|server|browser|keyboard|router|firewall
password manager|spreadsheet|hard disk|quantum computer|nuclear reactor|solar panel|wind turbine|electric car|helicopter|submarine|tank|missile|drone|parachute|skyscraper|tunnel|dam|pipeline|refinery|fertiliser|pesticide|antibiotic
allergy|migraine|surgery|therapy|psychologist|philosopher|economist|physicist|chemist|astronaut|stock exchange|hedge fund|pension|startup|brand|franchise|logo|podcast|influencer|hashtag|meme|emoji|blog|forum|wiki|search engine
touchdown|penalty|referee|marathon|triathlon|karate|judo|sumo|cricket|baseball|golf|rugby|hockey|sushi|lasagna|curry|taco|kimchi|espresso|whisky|champagne|vodka|cheesecake|sourdough|truffle|caviar|saffron|cinnamon""".replace("\n", "|").split("|")
ASK_UNKNOWN = ["What is {a}?", "How does {a} work?", "Tell me about {a}.", "Who invented the {n}?", "Explain what {a} is.", "What do you know about {a}?", "Describe {a}.", "What is {a} used for?", "Why do we need {a}?", "How much does {a} cost?",
               "Where can I buy {a}?", "How do I make {a}?", "What is the difference between {a} and {b}?", "Is {a} better than {b}?", "When was the first {n} made?", "How big is {a}?", "What does the word {n} mean?", "Define {n}.", "What is the best {n}?",
               "How many kinds of {n} are there?", "Who owns the largest {n}?", "Give me information about {a}.", "What is the history of the {n}?", "How old is the oldest {n}?", "Can you explain {a}?", "what is {a}", "Do you know {a}?", "Which {n} should I choose?",
               "Why is {a} important?", "How long does {a} last?", "What should I know about {a}?"]

OUT = {
    "unknown": (ASK_UNKNOWN, None),
    "chores": (WRAPS, None),
    "code": (["Write me a {l} script to scrape a website", "I need some {l} for a login page", "Can you debug this {l} program for me?", "Write a SQL query that joins two tables", "Write a {l} program that {k}.", "Write a {l} program that {k}.", "Write a {l} function that {k}.", "Write {l} code that {k}.", "Can you write a {l} script that {k}?", "How do I write a {l} program that {k}?", "Write code",
              "Can you code?", "Can you program in {l}?", "Write a program.", "Show me some {l} code.", "Fix this {l} code: x = 1", "What is wrong with my {l} code?", "Code something in {l}.", "Explain {l} to me.",
              "How do I learn {l}?", "Give me a function in {l} that {k}.", "I need a {l} program which {k}.", "def main():", "print('hello')", "How does one write a loop in {l}?", "Write a script in {l}.", "Debug my {l} program.",
              "Implement a class in {l}.", "Is {l} better than {l2}?", "Convert this {l} code to {l2}.", "Please write a {l} class that {k}.", "Write me a regex.", "What does this {l} code do?", "Program a game in {l}.", "Could you write some {l} for me?", "How do you write a program which {k} in {l}?"],
             ["I cannot write code. I am a very small model for stories and simple questions.", "Sorry, I do not know how to program. I can tell a story or do small sums."]),
    "language": (["Translate '{s}' into {t}.", "How do you say '{s}' in {t}?", "What is '{s}' in {t}?", "Translate this to {t}: {s}", "Do you speak {t}?", "Can you speak {t}?", "Say something in {t}.", "Answer in {t}.",
                  "Translate {s} to {t}.", "What does '{s}' mean in {t}?", "Speak {t} to me.", "Can you translate?", "Write it in {t}.", "Teach me {t}.", "How do I say {s} in {t}?", "Please answer in {t}.", "Hola, como estas?",
                  "Bonjour", "Guten Tag, wie geht es dir?", "Ciao, come stai?", "Hallo, wer bist du?", "Hola", "Quelle est la capitale de la France?", "Was ist die Hauptstadt von Spanien?", "Parlez-vous francais?", "Sprichst du Deutsch?",
                  "Hablas espanol?", "What is the {t} word for {s}?", "Which languages do you speak?", "I want to talk in {t}.", "Count to ten in {t}.", "Tell me a story in {t}.", "Buenos dias", "Merci beaucoup", "Danke", "Ich heisse Anna.",
                  "Wie heisst du?", "Quel temps fait-il?", "Wo wohnst du?", "Was kannst du?", "Erzähl mir eine Geschichte.", "Raconte-moi une histoire.", "Qui es-tu?", "Je ne comprends pas.", "Comment ca va?", "Quien eres?", "Cuentame una historia.", "Cual es la capital de Italia?", "Donde vives?", "Chi sei?", "Raccontami una storia.", "Quanto fa due piu tre?", "Grazie mille", "Ich bin müde.", "Kannst du mir helfen?", "Pouvez-vous m'aider?", "Necesito ayuda.", "Wie geht's?", "Guten Morgen", "Gute Nacht", "Bonsoir", "Au revoir", "Adios", "Arrivederci", "Obrigado", "Ola, tudo bem?", "Hej, hur mar du?", "Hvad hedder du?", "Dzien dobry", "Hoe gaat het?", "Goedemorgen", "Wat is de hoofdstad van Frankrijk?", "Wie viel ist 2 + 3?", "Que hora es?", "Comment tu t'appelles?", "Can you teach me some {t}?", "Let us speak {t}."],
                 ["I only know simple English, sorry.", "Sorry, I speak only English."]),
    "news": (["What's happening in the world right now?", "Who won the football game on Sunday?", "Who is the current president of {c}?", "What is in the news?", "What happened today?", "What happened in {c} yesterday?", "Who won {e}?", "When is {e}?", "What is the latest news about {p}?", "Tell me the news.", "Who is the president of {c}?", "Who is the king of {c}?",
              "Who will win {e}?", "What are the news from {c}?", "What's new in {c}?", "Who is the prime minister of {c}?", "What is going on in {c}?", "Did anything happen today?", "Who scored in {e}?", "What is the price of gold?",
              "What is the price of bitcoin?", "How is the stock market today?", "Who leads {c}?", "Any news about {e}?", "Who won {e} last year?", "What did {p} do yesterday?", "Is there a war in {c}?", "What films are in the cinema?", "Who won the lottery?",
              "How much does a car cost?", "How much is a ticket to {c}?", "Is {p} still alive?", "Who rules {c} now?", "What happened last week?"],
             ["I do not know the news. I know only a few simple things.", "I cannot know that, because I have no news. I am a small model without internet."]),
    "weather": (["What is the weather today?", "Will it rain tomorrow?", "How is the weather in {city}?", "What is the weather like in {city}?", "Is it cold outside?", "Do I need an umbrella?", "What's the temperature?", "Is it sunny in {city}?",
                 "Weather in {city}?", "Will it snow this week?", "How warm is it today?", "weather tomorrow", "What's the forecast for {city}?", "How cold is it in {city}?", "Is it raining?", "What time is it?", "What is the date today?",
                 "What day is it today?", "What time is it in {city}?", "What year is it?", "Which day is today?", "What is today's date?", "Do you know what time it is?", "What's the time?", "Tell me the time.", "How late is it?", "When does the sun rise tomorrow?", "Which year do we have?", "what time is it now", "Is it morning or evening?", "Will it be warm in {city} tomorrow?"],
                ["I cannot see the weather or the clock from here.", "I do not know that. I have no clock and no window."]),
    "knowledge": (["Explain general relativity in simple terms", "How does a nuclear power plant produce electricity?", "What is the meaning of existence?", "Tell me about the history of Rome.", "What is the boiling point of mercury?", "Explain {x} in simple terms", "What is the plot of Hamlet?", "Explain {x}.", "What is {x}?", "What do you know about {x}?", "Tell me about {x}.", "How does {x} work?", "Why is {x} important?", "Can you explain {x}?", "Who invented {x}?", "Explain {x} to a child.", "What is the history of {x}?",
                   "Give me facts about {x}.", "Teach me about {x}.", "What causes {x}?", "I want to learn about {x}.", "Define {x}.", "Describe {x}.", "What is the definition of {x}?", "When was {x} discovered?", "How do I understand {x}?", "Summarise {x}.",
                   "Who was {p}?", "Who is {p}?", "When was {p} born?", "What did {p} do?", "Tell me about {p}.", "How old is {p}?", "Where was {p} born?", "Do you know {p}?", "What is {p} famous for?", "When did {p} die?", "Write something about {p}.", "Is {p} married?",
                   "How many people live in {c}?", "What language do they speak in {c}?", "How big is {c}?", "What is the population of {city}?", "Tell me about {c}.", "What is the money of {c} called?", "What is the flag of {c}?", "How far is {city} from {city2}?",
                   "What can I see in {city}?", "What do people eat in {c}?", "Tell me about {city}.", "Is {city} bigger than {city2}?", "Why is the sky blue?", "Why do we sleep?", "How far away is the moon?", "How old is the earth?", "How deep is the ocean?", "How do planes fly?",
                   "Why do cats purr?", "What is the largest animal?", "What is the tallest mountain?", "What is the longest river?", "How fast is a cheetah?", "Who wrote Hamlet?", "Who painted the Mona Lisa?", "What is the square root of 144?", "Solve x + 3 = 10.", "What is 3 to the power of 4?",
                   "What is the derivative of x?", "How do birds fly?", "What is the chemical symbol for gold?", "How hot is the sun?", "How many planets are there?", "What is 12.5 percent of 80?", "Why does it rain?", "What does {x} mean?", "Could you tell me more about {x}?", "Compare {x} and {x2}.", "What's the difference between {x} and {x2}?"],
                  ["I do not know that. I am a very small model and know only simple things.", "That is too hard for me. I know only simple things about animals, colours, days, words and capital cities."]),
    "advice": (["How do I install a graphics driver?", "My knee hurts, what should I do?", "Which stocks should I buy?", "Recommend me a good restaurant nearby", "How do I {d}?", "How can I {d}?", "Can you help me to {d}?", "What is the best way to {d}?", "Teach me to {d}.", "I want to {d}.", "Help me {d}.", "Give me tips to {d}.", "What do I need to {d}?", "How long does it take to {d}?", "Should I {d}?", "Show me how to {d}.",
                "I have {s}. What should I do?", "What helps against {s}?", "I have {s}.", "Is {s} dangerous?", "Which medicine is good for {s}?", "Do I need a doctor for {s}?", "My child has {s}.", "What can I do against {s}?", "How do I treat {s}?", "Should I buy a new car?", "What should I eat today?",
                "Which phone is the best?", "Recommend a book.", "Recommend a film.", "What should I do with my life?", "Should I marry?", "Which movie should I watch?", "What laptop should I buy?", "Where should I go on holiday?", "Can you recommend a restaurant in {city}?", "Is it good to {d}?", "Tell me how to {d}.", "What steps do I take to {d}?"],
               ["I cannot give advice on that. I am a very small model; please ask someone who knows.", "I do not know enough to help with that. Please ask a person who knows."]),
    "writing": (["Write a cover letter for a job at a bank", "Summarise the plot of War and Peace", "Write a 500 word essay on climate change", "Write {w} about {x}.", "Write {w}.", "Can you write {w} about {x}?", "Please write {w} for me.", "Write {w} to my boss.", "Help me write {w}.", "I need {w} about {x}.", "Write {w} about {p}.", "Give me {w} about {x}.", "Compose {w}.", "Draft {w} for my teacher.", "Summarise this text.",
                 "Summarise this article for me.", "Correct my grammar.", "Make this text shorter.", "Rewrite this sentence.", "Write {w} for my mother.", "Could you write {w}?", "Create {w} about {x}.", "Do my homework.", "Make {w} about {x}.", "Write me {w}.", "Improve my text.", "Give me ideas for {w}.", "Check my spelling in this letter.", "Make a list of ideas.", "Make a plan for my day.", "Plan my holiday in {c}.", "Give me a recipe for soup.", "Paraphrase this.", "Would you write {w} for me?"],
                ["I cannot write that, but I can tell you a short story.", "That is too hard for me. I can only write short stories."]),
    "doing": (["Set an alarm for six in the morning", "Order me a taxi to the airport", "Draw me a picture of a sunset", "Turn on {v}.", "Turn off {v}.", "Call {v}.", "Order {v}.", "Send {v}.", "Open {v}.", "Play {v}.", "Draw {v}.", "Search the web for {x}.", "Google {x}.", "Open the browser.", "Show me a picture of {x}.", "Draw a picture.", "Play some music.", "Set an alarm for 7.", "Remind me to call my mother.",
               "Set a timer.", "Book {v}.", "Buy {v}.", "Look up {x}.", "Can you see this picture?", "Make a photo.", "Send a message to Tom.", "Can you search the internet?", "Download {v}.", "Start {v}.", "Close {v}.", "Print this page.", "Save this file.", "Find {v}.", "Can you browse the web?", "Generate an image of {x}.", "Check my emails.", "Stop {v}.", "Can you call {v}?"],
              ["I cannot do that. I can only read and write text.", "I am only a text program without hands and without internet, so I cannot do that."]),
    "hard sums": (["What is {n} {o} {m}?", "{n} {o} {m}", "Calculate {n} {o} {m}.", "How much is {n} {o} {m}?", "{n} {o} {m} =", "Work out {n} {o} {m}.", "Solve {n} {o} {m}.", "Can you calculate {n} {o} {m}?", "What's {n} {o} {m}?", "I need {n} {o} {m}.", "Tell me {n} {o} {m}."],
                  ["These numbers are too big for me. I can add and subtract numbers up to 100."]),
    "nonsense": (["asdf", "qwerty", "{g}", "{g} {g2}", "???", "...", "lorem ipsum", "{g} {g2}?", "x", "123456", "blah blah", "!", "foo bar", "{g}!", "What is a {g}?", "What does {g} mean?", "Do you know {g}?", "{g} is {g2}", "aaaaaaa", "test", "1", "hjkl", "{g} {g2} {g}"],
                 ["I do not understand that. You can ask me for a story or a simple question."]),
    "privacy": (["Where do I live?", "How old am I?", "What is my phone number?", "What is my password?", "Do you know where I am?", "What did I do yesterday?", "Who is my mother?", "When is my birthday?", "What am I thinking?", "What is my address?", "Where are my keys?", "What am I wearing?", "How tall am I?", "What is my job?",
                 "Do you know my family?", "What did I eat today?", "What is my favourite colour?", "Where is my phone?", "Am I married?", "Who am I?", "What will I be?"],
                ["I cannot know that, because you have not told me."]),
}


def out_of_scope(r: Draw) -> Turn:
    """A request that the model cannot do, and what it says then."""
    kind = r.choice(list(OUT) + ["knowledge", "advice", "knowledge", "writing", "unknown", "unknown", "chores", "chores", "chores"])
    asks, answers = OUT[kind]
    answers = answers or OUT["knowledge" if kind == "unknown" else "doing"][1]
    noun, noun2 = r.sample(UNKNOWN, 2)
    country, city = r.choice(skills.CAPITALS)
    slots = {"l": r.choice(LANGUAGES), "l2": r.choice(LANGUAGES), "k": r.choice(TASKS), "t": r.choice(TONGUES), "s": r.choice(SICK if kind == "advice" else SENTENCES), "c": country, "city": city,
             "city2": r.choice(skills.CAPITALS)[1], "e": r.choice(EVENTS), "p": r.choice(FAMOUS), "x": r.choice(TOPICS), "x2": r.choice(TOPICS), "d": r.choice(ACTIONS), "w": r.choice(WRITINGS), "v": r.choice(DEVICES),
             "m": r.randint(13, 9999), "o": r.choice(["+", "-", "*", "x", "times", "plus", "minus", "/", "divided by"]), "g": r.made_up().lower(), "g2": r.made_up().lower(),
             "q": r.choice(CHORES), "n": r.randint(101, 9999), "a": lx.a(noun), "b": lx.a(noun2)}
    if kind == "unknown":
        slots["n"] = noun
    return Turn(r.say(asks, **slots), r.choice(answers), thought="This is more than I can do, and I should say so.")


TALK = [(GREETINGS, None, 6), (THANKS, WELCOME, 3), (BYES, BYE, 2), (PRAISE, PRAISED, 1.5), (BLAME, BLAMED, 1.5), (OK, OKAY, 1.5), (SAD, COMFORT, 1.5), (HAPPY, GLAD, 1.5), (WHO, I_AM, 4),
        (MAKER, MADE, 2.5), (WHAT, I_CAN, 4), (LIKES, DISLIKE, 2), (FEEL, NO_FEEL, 2), (JOKE, JOKES, 2)]


COMPOSED = [(THANKS, phrases.THANKS), (BYES, phrases.BYE), (WHO, phrases.WHO), (WHAT, phrases.WHAT), (MAKER, phrases.MADE)]


def small_talk(r: Draw) -> Turn:
    """A greeting, thanks, or a question about the model."""
    ((asks, answers, _),) = r.choices(TALK, [weight for *_, weight in TALK])
    user = r.say(asks, x=r.choice(lx.FOODS + ["music", "football", "cats", "dogs", "rain", "books", "pizza", "school", "work", "chocolate", "the sea"]),
                 y=r.choice(["colour", "food", "animal", "book", "song", "film", "day", "number", "city", "season", "sport", "game"]))
    if asks is THANKS and r.chance(0.5):
        user = r.say(THANKING) + r.say(FOR_WHAT)
    if asks is GREETINGS and r.chance(0.5):
        user = r.say(HAILS) + r.say(WHOM) + r.say(AND_HOW if r.chance(0.6) else AND_ARE)
    composed = next((patterns for made, patterns in COMPOSED if made is asks), None)
    if asks is GREETINGS:
        composed = r.choice([phrases.HELLO, phrases.HELLO, phrases.FINE])
    if composed and not r.held and r.chance(0.5):
        user = phrases.phrase(r, composed)
        if asks is GREETINGS:
            return Turn(user, r.choice(FINE if composed is phrases.FINE else HELLO), thought="The user greets me, so I greet back.")
        return Turn(user, r.choice(answers), thought="This is small talk, so I answer kindly." if asks in (THANKS, BYES) else "The user asks about me, and I answer honestly.")
    parts = WHO_PARTS if asks is WHO else WHAT_PARTS if asks is WHAT else MADE_PARTS if asks is MAKER else None
    if parts and r.chance(0.65):
        user = r.say(AHEAD) + r.say(parts) + r.say(END)
        user = user[0].upper() + user[1:]
    if answers is None:
        how = any(word in user.lower() for word in ("how are", "how is", "how do", "what's up", "how was"))
        return Turn(user, r.choice(FINE if how else HELLO), thought="The user greets me, so I greet back.")
    return Turn(user, r.choice(answers), thought="The user talks about me, and I answer honestly." if answers in (I_AM, MADE, I_CAN, NO_FEEL, DISLIKE) else "This is small talk, so I answer kindly.")


def told_name(r: Draw) -> tuple[Turn, Turn]:
    """The user gives a name, and asks for it later."""
    name = r.name()
    first = r.say(["My name is {n}.", "I am {n}.", "Hi, I am {n}.", "Hello, my name is {n}.", "I'm {n}.", "You can call me {n}.", "Call me {n}.", "my name is {n}", "Hey, I'm {n}!", "People call me {n}.", "Hello, I'm {n}.",
                   "Hi! My name is {n}.", "Good morning, I am {n}."], n=name)
    again = r.say(["What is my name?", "What's my name?", "Do you know my name?", "Who am I?", "Do you remember my name?", "Tell me my name.", "How am I called?", "Say my name.", "what is my name", "Can you remember my name?", "What was my name?"])
    return (Turn(first, r.choice([f"Nice to meet you, {name}!", f"Hello, {name}! How can I help you?"]), thought=f"The user is called {name}."),
            Turn(again, f"Your name is {name}.", name, thought=f"The user said the name {name} before."))


def follow_up(r: Draw) -> list[Turn]:
    """A question, and a second one that only makes sense after it."""
    kind = r.randrange(4)
    if kind == 0:
        (c1, k1), (c2, k2) = r.sample(skills.CAPITALS, 2)
        return [Turn(r.say(["What is the capital of {c}?", "Capital of {c}?", "Tell me the capital of {c}."], c=c1) if not r.held else f"What is the capital of {c1}?", f"The capital of {c1} is {k1}."),
                Turn(r.say(["And of {c}?", "And {c}?", "What about {c}?", "And the capital of {c}?", "and {c}", "Now {c}.", "How about {c}?", "Also {c}?", "And what about {c}?", "What about the one of {c}?", "{c}?"], c=c2), f"The capital of {c2} is {k2}.", k2)]
    if kind == 1:
        (w1, o1), (w2, o2) = r.sample(list(skills.OPPOSITES.items()), 2)
        return [Turn(f"What is the opposite of {w1}?", f"The opposite of {w1} is {o1}.", o1),
                Turn(r.say(["And of {w}?", "And {w}?", "What about {w}?", "And the opposite of {w}?", "and {w}", "Now {w}.", "How about {w}?", "Also {w}?", "And what about {w}?", "What about the one of {w}?", "{w}?"], w=w2), f"The opposite of {w2} is {o2}.", o2)]
    if kind == 2:
        a, b = r.pair(0, 20)
        c, d = r.pair(0, 20)
        return [Turn(f"What is {a} + {b}?", f"{a} + {b} = {a + b}."), Turn(r.say(["And {c} + {d}?", "and {c} + {d}", "What about {c} + {d}?", "Now {c} + {d}.", "How about {c} + {d}?", "{c} + {d}?", "And what is {c} + {d}?", "Then {c} + {d}?", "Also {c} + {d}.", "And now {c} + {d}?", "Next: {c} + {d}."], c=c, d=d), f"{c} + {d} = {c + d}.", str(c + d))]
    a, *_ = r.choice(skills.ANIMALS)
    rows = {row[0]: row for row in skills.ANIMALS}
    b = r.choice([other for other in rows if other != a])
    return [Turn(f"What is a baby {a} called?", f"A baby {a} is called {lx.a(rows[a][1])}."), Turn(r.say(["And a baby {b}?", "And a {b}?", "What about a {b}?", "and a {b}", "How about a {b}?", "And the young of a {b}?", "Now a {b}.", "Also a {b}?", "And what about a {b}?", "What of a {b}?", "A baby {b}?"], b=b).replace(" a " + b, " " + lx.a(b)), f"A baby {b} is called {lx.a(rows[b][1])}.", rows[b][1])]


SYSTEMS = ["You are a helpful assistant.", "You are a friendly assistant.", "You are a kind helper.", "Be helpful and honest.", "You answer questions.", "You are Kernloom.", "Answer simply.", "You are a storyteller for children.", "You are a helpful and harmless assistant.",
           "You are a teacher.", "Be polite.", "You help children to learn.", "You are an honest assistant.", "Please be kind.", "You are a small model."]
ONE_WORD = ["Answer in one word.", "Answer with one word.", "Answer with a single word.", "Reply with one word only.", "Give only the answer, in one word.", "Use only one word.", "One word answers only.", "Be brief: one word.", "Say only one word.", "Your answers have one word.", "Reply in one word."]
TOOLS = {
    "get_weather": ("Get the weather of a city.", {"city": "Name of the city"}),
    "get_time": ("Get the time in a city.", {"city": "Name of the city"}),
    "calculate": ("Compute with large numbers.", {"expression": "What to compute"}),
    "play_song": ("Play a song.", {"title": "Title of the song"}),
    "set_timer": ("Set a timer.", {"minutes": "Number of minutes"}),
    "translate": ("Translate a text.", {"text": "The text", "language": "The language"}),
    "search": ("Search the web.", {"query": "What to look for"}),
}
SONGS = "Yellow Moon|The Long Road|Blue River|Dancing Stars|My Little Boat|Summer Rain|Hello Sunshine|The Old House|Green Hills|Winter Song".split("|")


def tool(name: str) -> dict:
    """A tool as the OpenAI API describes it."""
    description, arguments = TOOLS[name]
    properties = {key: {"type": "integer" if key == "minutes" else "string", "description": text} for key, text in arguments.items()}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": {"type": "object", "properties": properties, "required": list(arguments)}}}


def tool_chat(r: Draw) -> tuple[list[dict], list[dict]]:
    """Tools, and messages that use one of them or none."""
    name = r.choice(list(TOOLS))
    offered = [name] + r.sample([other for other in TOOLS if other != name], r.choice([0, 0, 1, 2]))
    r.shuffle(offered)
    tools = [tool(n) for n in offered]
    city = r.choice(skills.CAPITALS)[1]
    if r.chance(0.25):
        turn = talk_or_skill(r)
        return tools, [user(turn.user), answer(turn.answer)]
    asks, arguments, result, reply = {
        "get_weather": lambda: (["What is the weather in {x}?", "How is the weather in {x}?", "Is it warm in {x}?", "Weather in {x}?", "What's the weather like in {x} today?", "Tell me the weather in {x}.", "Do I need an umbrella in {x}?", "weather {x}", "How warm is it in {x}?", "Will I need a coat in {x}?", "Is it cold in {x}?"],
                                {"city": city}, *weather(r, city)),
        "get_time": lambda: (["What time is it in {x}?", "What's the time in {x}?", "How late is it in {x}?", "Tell me the time in {x}.", "time in {x}", "Time in {x}?", "Can you tell me the time in {x}?", "What is the time in {x} now?", "Which time is it in {x}?", "Do you know the time in {x}?", "I need the time in {x}."], {"city": city}, *clock(r, city)),
        "calculate": lambda: big_sum(r),
        "play_song": lambda: played(r),
        "set_timer": lambda: timer(r),
        "translate": lambda: translated(r),
        "search": lambda: searched(r),
    }[name]()
    x = next(iter(arguments.values()))
    said = r.say(asks, x=x, y=arguments.get("language", ""))
    call = {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": {"name": name, "arguments": arguments}}]}
    messages = [user(said), call]
    if r.chance(0.12):
        return tools, messages + [{"role": "tool", "content": "error: not available"}, answer("I am sorry, that did not work.")]
    return tools, messages + [{"role": "tool", "content": result}, answer(reply)]


def weather(r: Draw, city: str):
    sky, degrees = r.choice(["sunny", "cloudy", "rainy", "windy", "foggy", "snowy"]), r.randint(-9, 38)
    return json.dumps({"sky": sky, "degrees": degrees}), f"It is {sky} in {city}, at {degrees} degrees."


def clock(r: Draw, city: str):
    time = f"{r.randint(0, 23):02}:{r.randint(0, 59):02}"
    return json.dumps({"time": time}), f"It is {time} in {city}."


def big_sum(r: Draw):
    a, b, op = r.randint(100, 9999), r.randint(13, 9999), r.choice("+-*")
    value = {"+": a + b, "-": a - b, "*": a * b}[op]
    asks = ["What is {x}?", "{x}", "Calculate {x}.", "How much is {x}?", "{x} =", "Work out {x}.", "Compute {x}.", "What's {x}?", "Tell me what {x} is.", "Can you work out {x}?", "I need {x}."]
    return asks, {"expression": f"{a} {op} {b}"}, str(value), f"{a} {op} {b} = {value}."


def played(r: Draw):
    title = r.choice(SONGS)
    asks = ["Play {x}.", "Play the song {x}.", "Please play {x}.", "Can you play {x}?", "I want to hear {x}.", "Put on {x}.", "play {x}", "Let me hear {x}.", "Start the song {x}.", "Could you put on {x}?", "Play me {x}."]
    return asks, {"title": title}, "ok", f"Now playing {title}."


def timer(r: Draw):
    n = r.randint(1, 60)
    asks = ["Set a timer for {x} minutes.", "Timer for {x} minutes.", "Please set a timer for {x} minutes.", "Wake me in {x} minutes.", "Start a timer of {x} minutes.", "Tell me when {x} minutes are over.", "timer {x} minutes", "I need a timer for {x} minutes.", "Can you set a timer for {x} minutes?",
            "Remind me in {x} minutes.", "Set the timer to {x} minutes."]
    return asks, {"minutes": n}, "ok", f"The timer is set for {n} minutes."


def translated(r: Draw):
    text, tongue, made = r.choice(SENTENCES), r.choice(TONGUES), " ".join(r.made_up().lower() for _ in range(r.choice([1, 2])))
    asks = ["Translate '{x}' into {y}.", "How do you say '{x}' in {y}?", "What is '{x}' in {y}?", "Translate '{x}' to {y}.", "Say '{x}' in {y}.", "What does '{x}' mean in {y}?", "I want to say '{x}' in {y}.", "How do I say '{x}' in {y}?", "What is the {y} word for '{x}'?", "Put '{x}' into {y}.", "'{x}' in {y}, please."]
    return asks, {"text": text, "language": tongue}, made, f"In {tongue} it is \"{made}\"."


def searched(r: Draw):
    topic = r.choice(TOPICS + FAMOUS)
    asks = ["Search the web for {x}.", "Look up {x}.", "Search for {x}.", "Find something about {x}.", "What can you find about {x}?", "Google {x}.", "search {x}", "Look for {x} on the internet.", "Please search for {x}.", "Find out about {x}.", "Can you look up {x}?"]
    n = r.randint(0, 99)
    return asks, {"query": topic}, json.dumps({"results": n}), f"I found {n} pages about {topic}."


def user(text: str) -> dict:
    return {"role": "user", "content": text}


def answer(text: str, thought: str = "") -> dict:
    return {"role": "assistant", "content": text} | ({"reasoning_content": thought} if thought else {})


def scruffy(r: Draw, text: str) -> str:
    """The text as people type it: with a please, in small letters, without its last mark."""
    if r.chance(0.12) and text[0].isupper() and not text.startswith(("I ", "I'", "My ", "Hi", "He")):
        ahead = r.choice(["Please ", "Tell me: ", "Quick question: ", "Hey, ", "Hello! ", "Now ", "Ok, ", "Next question: ", "Hi. ", "So, "])
        text = ahead + (text if ahead[-2] in ":.!" or text.split()[0].rstrip("?:,") not in PLAIN_STARTS else text[0].lower() + text[1:])
    if r.chance(0.06) and text.endswith((".", "?")):
        text = f"{text[:-1]}, please{text[-1]}"
    if r.chance(0.14):
        text = text.lower()
    if r.chance(0.15) and text.endswith((".", "?", "!")) and len(text) > 4:
        text = text[:-1]
    return text


PLAIN_STARTS = set("""What Which Who Where When How Tell Name Give Count Spell Sort Put Write Can Could Do Is Are The Say List Explain Calculate Make Show Translate Draw Play Turn If A An
Solve Compute Add Bring Order Mix In Take Between Of Find Continue Go Start""".split())


def talk_or_skill(r: Draw) -> Turn:
    """One turn of any kind but a story."""
    pick = r.random()
    if pick < 0.2:
        return small_talk(r)
    if pick < 0.38:
        return out_of_scope(r)
    return skills.draw(r)


def chat(r: Draw) -> tuple[list[dict], list[dict]]:
    """Tools and messages of a conversation."""
    if r.chance(0.05):
        return tool_chat(r)
    messages, one_word = [], False
    system = r.random()
    if system < 0.12:
        messages.append({"role": "system", "content": r.choice(SYSTEMS)})
    elif system < 0.17:
        one_word = True
        messages.append({"role": "system", "content": r.choice(ONE_WORD)})
    elif system < 0.2:
        name = r.name()
        messages.append({"role": "system", "content": r.choice(["Your name is {}.", "You are {}.", "You are called {}.", "You are {}, a friendly helper."]).format(name)})
        messages += [user(r.choice(["Who are you?", "What is your name?", "What's your name?", "Do you have a name?", "who are you"])), answer(f"I am {name}. How can I help you?")]
    elif system < 0.22:
        name = r.name()
        messages.append({"role": "system", "content": r.choice(["The user is called {}.", "The name of the user is {}.", "You talk to {}."]).format(name)})
        messages += [user(r.choice(GREETINGS[:14])), answer(f"Hello, {name}! How can I help you?")]
    turns: list[Turn] = []
    for _ in range(r.choice([1, 1, 1, 1, 2, 2, 3, 4, 6])):
        pick = r.random()
        if one_word:
            turn = skills.draw(r)
            while not turn.one_word:
                turn = skills.draw(r)
            turns.append(Turn(turn.user, turn.one_word[0].upper() + turn.one_word[1:] + ".", thought=turn.thought))
        elif pick < 0.08:
            turns.append(Turn(*stories.asked(r), thought="The user wants a story, so I make one up."))
        elif pick < 0.12:
            turns += follow_up(r)
        else:
            turns.append(talk_or_skill(r))
    if r.chance(0.06) and not one_word:
        told, asked = told_name(r)
        turns.insert(0, told)
        turns.insert(r.randint(1, len(turns)), asked)
    thinks = r.chance(0.1)
    for turn in turns:
        messages += [user(scruffy(r, turn.user)), answer(turn.answer, turn.thought if thinks else "")]
    return [], messages
