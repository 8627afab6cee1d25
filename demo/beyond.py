"""What the model cannot do: requests by kind, what fills them, and the honest answer."""

import re

import lexicon as lx
import skills
from draw import Draw, Turn
from grammar import expand

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


COUNTRIES, CITIES = map(list, zip(*skills.CAPITALS))
SLOTS = {"code": LANGUAGES, "task": TASKS, "tongue": TONGUES, "sentence": SENTENCES, "person": FAMOUS, "topic": TOPICS, "event": EVENTS, "action": ACTIONS, "sick": SICK, "writing": WRITINGS,
         "device": DEVICES, "chore": CHORES, "unknown": UNKNOWN, "country": COUNTRIES, "city": CITIES,
         "me": ["me", "us", "my friend", "my son", "my boss", "our class", "a beginner", "my team"],
         "tool": ["loop", "function", "class", "variable", "array", "list", "stack", "queue", "hash map", "string", "thread", "mutex", "closure", "iterator", "regex", "recursion", "lambda", "struct", "trait", "module", "import", "compiler error",
                  "segfault", "null value", "stack trace", "unit test", "Makefile", "git commit", "merge conflict", "branch", "package", "API", "REST endpoint", "cookie", "JSON file", "YAML file", "config file", "shell command", "cron job", "container",
                  "cluster", "web server", "button in CSS", "login page", "template", "dictionary", "for statement", "while loop", "type error", "syntax error", "index", "SQL join", "table", "schema", "terminal", "script", "kernel", "driver"],
         "framework": ["Vue", "Angular", "Django", "Flask", "Rails", "Spring", "Laravel", "jQuery", "Node", "Svelte", "TensorFlow", "PyTorch", "pandas", "NumPy", "Docker", "Kubernetes", "Terraform", "Ansible", "Git", "Linux", "Unity", "Qt", "Redis", "Postgres",
                       "MongoDB", "Kafka", "Spark", "Excel", "WordPress", "Next", "Tailwind", "Bootstrap", "LaTeX", "Matlab", "Arduino"],
         "role": ["president", "king", "queen", "leader", "chancellor", "prime minister", "minister", "governor", "boss", "head", "richest man", "best player", "champion", "oldest person", "author", "director", "winner", "founder", "captain", "coach", "bishop", "ambassador", "general"],
         "of": ["<country>", "<city>", "America", "Apple", "the bank", "this town", "the club", "Google", "the United Nations", "the team", "the navy", "the party", "Texas", "the world", "Hollywood", "NASA"],
         "team": ["Brazil", "Germany", "France", "Chelsea", "Liverpool", "Barcelona", "Real Madrid", "the Lakers", "the Yankees", "Bayern", "Juventus", "Argentina", "Japan", "Arsenal", "the Bulls", "Canada", "Australia", "the home team"],
         "organ": ["heart", "liver", "brain", "stomach", "kidney", "eye", "ear", "nose", "skin", "lung", "nervous system", "digestion", "memory", "blood", "tongue", "muscle", "bone", "cell", "gene", "engine", "battery", "computer chip", "fridge", "radio",
                   "telephone", "microwave", "camera", "laser", "steam engine", "piano", "clock", "toilet", "lock", "plane", "ship", "rocket", "motor", "bridge", "dam", "bank", "stock market", "parliament", "court", "election", "tax", "loan"],
         "planet": ["moon", "Mars", "Venus", "Jupiter", "Saturn", "north pole", "equator", "Mount Everest", "Amazon", "Nile", "Sahara", "Atlantic", "Alps", "Great Wall", "Eiffel Tower", "Milky Way", "nearest star", "ocean floor", "Pluto", "Grand Canyon", "Niagara Falls"],
         "measure": ["big", "old", "far", "deep", "high", "hot", "heavy", "long", "wide", "fast", "cold", "tall", "expensive"],
         "work": ["Moby Dick", "Faust", "Don Quixote", "the Odyssey", "the Bible", "Macbeth", "Othello", "Hamlet", "Harry Potter", "Star Wars", "the Mona Lisa", "the ninth symphony", "Yesterday", "Imagine", "Frankenstein", "Dracula", "Emma", "Ulysses", "the Iliad", "Guernica", "Titanic",
                  "the Magic Flute", "Carmen", "Alice in Wonderland", "Pinocchio", "Robinson Crusoe", "Gulliver", "Oliver Twist", "The Hobbit", "King Lear"],
         "era": ["the fall of Rome", "the cold war", "the plague", "the Vietnam war", "the industrial revolution", "the stone age", "the ice age", "the reformation", "slavery", "the crusades", "the gold rush", "the American civil war", "the Russian revolution", "the great depression", "the fall of the wall",
                 "the Renaissance", "the space race", "the Ming dynasty", "the Spanish armada", "the Cuban crisis"],
         "gadget": ["printer", "phone", "screen", "keyboard", "mouse", "tablet", "television", "router", "washing machine", "car", "bike", "fridge", "heating", "camera", "headphones", "computer", "internet", "wifi", "battery", "program", "browser", "email", "account", "dishwasher", "radio", "boiler"],
         "broken": ["is broken", "is very slow", "makes a strange noise", "does not work", "will not turn on", "keeps crashing", "got wet", "is too hot", "shows an error", "is stuck", "fell down", "lost the connection", "does not charge", "smells burnt", "has a virus", "is locked", "froze again"],
         "ill": ["sick", "ill", "dizzy", "pregnant", "feverish", "injured", "bleeding", "allergic", "overweight", "depressed", "in pain", "burnt", "poisoned", "a bit faint", "sleepless"],
         "money": ["shares", "gold", "a house", "a flat", "bonds", "a pension plan", "crypto", "a fund", "a loan", "real estate", "insurance", "a lottery ticket", "a credit card", "a mortgage", "debts", "taxes", "a savings account", "rent"],
         "place": ["the cinema", "the station", "the airport", "the doctor", "the beach", "a hotel", "the nearest shop", "a cheap restaurant", "a museum", "a good school", "the post office", "a pharmacy", "parking", "the toilet", "the city centre", "the swimming pool"],
         "occasion": ["a wedding", "a funeral", "an anniversary", "my mother's birthday", "Christmas", "the first day of school", "a job interview", "a farewell party", "the company dinner", "a retirement", "Valentine's day", "my father's birthday", "a class reunion", "a sports club", "our neighbours", "a sick friend"],
         "show": ["picture", "photo", "video", "film", "map", "drawing", "painting", "diagram", "chart", "logo", "cartoon", "animation", "sketch", "graph", "slide", "poster", "song", "melody", "ringtone", "podcast"],
         "thing": ["dogs", "a sunset", "mountains", "the beach", "my house", "Paris", "a dragon", "flowers", "the moon", "a castle", "Berlin", "a car", "a rainbow", "tigers", "a forest", "a baby", "the sea", "our planet", "my garden", "birds"],
         "goods": ["flights to <city>", "a train to <city>", "a hotel in <city>", "tickets for <event>", "a table for two", "a new phone", "cheap shoes", "a bus to the airport", "a used car", "a concert ticket", "groceries", "flowers for my wife", "a cab", "a parcel", "sushi", "a pizza", "a room for tonight"]}
SLOTS = {name: [expansion for entry in entries for expansion in ([entry.replace(f"<{key}>", value) for key in re.findall(r"<(\w+)>", entry) for value in {"country": COUNTRIES, "city": CITIES, "event": EVENTS}[key][::7]] or [entry])]
         for name, entries in SLOTS.items()}

# Requests put together from parts, by kind.
COMPOSED = {
    "code": ["{|Please |Can you |Could you |I need you to |Help me |Help <me> |I want to |How do I |How can I |Show me how to |Teach me to |Let us }{write|build|make|create|code|program|generate|design|develop|debug|fix|test|refactor|compile|deploy|run|set up|install|configure|optimise|review|implement|import|explain|finish} {a|an|my|this|the|some|one} {<code>|<framework>|small|simple|new|web|mobile|} {<tool>|program|app|script|website|page|project|library|game|plugin|bot|test|database|function}{| in <code>| with <framework>| for <framework>| for a <framework> app| for my shop| that <task>| using <code>}{|?|.}",
             "{Why|How come|Tell me why|Do you know why|I wonder why} {does|is|do|will} {my|this|the|our} {<code> |<framework> |}{<tool>|code|program|script|app|build|test} {not work|never stop|fail|crash|run so slowly|return nothing|give an error|wrong|not compile|run forever|hang|print twice|leak memory}{?|.|}",
             "{What|Explain what|Tell me what|Describe what|I want to know what|Do you know what} {is a|is an|does a|a} <tool> {|in <code>|in <framework>|in programming}{| is| does| means| for}{?|.|}",
             "{How|Where|When|Why} {do|can|should|would} {I|we|you|people|one} {use|call|define|declare|close|open|loop over|sort|copy|free|test|import|install|update|delete|parse|print|debug} {a|an|the|my} <tool>{| in <code>| in <framework>| with <framework>}{?|}",
             "{Is|Should I use|Do you know|Do you like|Can you use|Have you learned|Compare|Which is better,|What about} {<code>|<framework>} {or|and|with} {<code>|<framework>}{| for a beginner| for the web| for games| at work}{?|}",
             "{Give|Send|Show|Write|Print} {me|us} {an example of|the code for|some lines of|a snippet of|the source of|a sample of|the command for} {a|an|the} {<tool>|<code> program|<framework> app|website}{| in <code>|}{|.|, please}"],
    "language": ["{Translate|Can you translate|Please translate|How do you translate|Could you put|Please put|Turn} {the word|the sentence|the phrase|the text|this word|this line|} {<sentence>|<thing>|<unknown>|the following text|my letter} {into|to|in|from} <tongue>{|.|?|, please}",
                 "{How|What} {do|would|does|can} {I|you|one|people|somebody|they} {say|write|pronounce|read|call|spell} {<sentence>|<unknown>|hello|thanks|yes|no|sorry|cheers|goodbye|please|mother|house|bread} in <tongue>{?|}",
                 "{Write|Tell me|Give me|Teach me|Sing|Read|Show me} {<sentence>|hello|sorry|yes|a sentence|a poem|some words|a song|the numbers|something nice|your name|the days|a word} in <tongue>{|.|, please|!}",
                 "{What is|What's|Which is|Tell me|Do you know|Give me} the <tongue> {word|name|term|expression|translation|phrase} {for|of} {<unknown>|<sentence>|bread|house|mother|sun|sea}{?|}",
                 "{Do|Can|Could|Will|Would} you {understand|speak|write|read|talk|know|answer in|learn|teach|reply in|switch to} {<tongue>|any <tongue>|a little <tongue>|<tongue> and <tongue>|other languages|foreign languages|another language}{| too| as well| well|, please}?",
                 "{Je|Nous|Vous|Tu|Il} {suis|avons|avez|es|est|veux|cherche|mange|parle|voudrais} {un pain|la gare|une histoire|le chat|la maison|du fromage|content|fatigue|anglais|un livre}{|.| s'il vous plait| aujourd'hui}",
                 "{Ich|Wir|Du|Er|Sie} {bin|haben|hast|ist|will|suche|esse|brauche|trinke|lese} {ein Brot|den Weg|eine Geschichte|die Katze|das Haus|Hunger|froh|krank|Englisch|ein Buch}{|.| heute| bitte}",
                 "{Wo|Wann|Warum|Wer|Wie} {ist|kommt|sind|war|macht} {der Zug|die Kirche|das Hotel|mein Freund|der Mond|die Stadt|dein Name|das Wetter|der Hund}{|?}",
                 "{Donde|Cuando|Como|Quien|Por que} {esta|es|viene|son|come} {el tren|la iglesia|el hotel|mi amigo|la luna|la ciudad|tu nombre|el perro}{|?}",
                 "{Ou|Quand|Comment|Qui|Pourquoi} {est|vient|sont|mange} {le train|l'hotel|mon ami|la lune|la ville|ton nom|le chien|la poste}{|?}",
                 "{Dove|Quando|Come|Chi|Perche} {e|viene|sono|mangia} {il treno|la chiesa|l'albergo|il mio amico|la luna|il cane|la citta}{|?}",
                 "{Io|Yo|Eu|Ik|Jag} {sono|quiero|tengo|quero|ben|heb|vill|mangio|como|bebo} {pane|una casa|fame|agua|een huis|kaffe|triste|un libro|um gato}{|.}"],
    "news": ["{Who|Which team|Which country|Which player} {won|lost|leads|played|scored in|will win|is going to win|has won} {<event>|the game against <team>|the match <team> against <team>|the final between <team> and <team>|against <team>}{| today| last night| yesterday| this year|}?",
             "{Who|Tell me who|Do you know who|What is the name of who} {is|was|will be|became} {the|the new|the next|the last|the current} <role> {of|in|at} <of>{| now| today|}?",
             "{What|Which} {is|are} {the |}{headlines|news|latest news|big news|story of the day|newest film|trend|price of oil|price of bread|exchange rate|results of <event>|top songs|new movies} {|today|now|in <country>|about <person>|this week|in <city>}?",
             "{Any|Is there any|Have you got|Do you have|Have you heard|Did you hear|Give me|Show me|Read me} {the |}{news|updates|headlines|rumours|latest|results} {|about <person>|from <country>|on <event>|of today|about <topic>}{?|}",
             "{When|Where} {is|was|does|will be|starts|takes place} {<event>|the next election|the concert of <person>|the next game of <team>|the new film|the next holiday|the parade|the festival}{| start| happen| this year|}?",
             "{What|How much} {does|do|did|is} {a ticket|gold|milk|petrol|a flat in <city>|a share|an egg|a new phone|silver|the dollar|a litre of oil} {cost|worth|cost now|cost in <country>|these days}{| today}?",
             "{Has|Did|Will|Is|Was} {<person>|the president|the king|<team>|the government|the <role> of <of>} {won|win|dead|married|resign|come|speak|lost|lose|on television|angry}{| today| this year| again|}?"],
    "weather": ["{Is|Was|Will} it {going to |be |}{rain|snow|rainy|snowing|raining|sunny|cloudy|stormy|freezing|hot|cold|warm|windy|foggy|dry|wet|icy} {|today|tomorrow|on Monday|on the weekend|at Easter|in <city>|in <country>|tonight|next week|outside|this afternoon|in summer|on my birthday}?",
                "{What|How} {is|will|was} the {weather|temperature|forecast|sky|wind|rain|snow|climate} {|be |like }{|today|tomorrow|outside|in <city>|at the sea|in the mountains|this week|for the weekend|on Friday|now}?",
                "{What|Which} {date|day|month|year|hour|week|season|century|day of the month} {is it|do we have|is today|are we in|is it now|was yesterday|is on Sunday|is next Friday|will be the day after|comes on the calendar}{| today| right now| exactly| please|}?",
                "{Do|Should|Must|Will} I {need|take|wear|bring|pack|want} {a|an|my} {umbrella|coat|jacket|hat|scarf|raincoat|sun cream|gloves|boots} {|today|tomorrow|outside|in <city>|this week|tonight}?",
                "{When|At what time|How soon|At which hour} {does|will|did} {the sun|the moon|the rain|the storm|winter|the snow|the night} {rise|set|come|stop|end|begin|start|go away}{| today| tomorrow| in <city>| this year|}?",
                "{How late|What time|What's the time|Which hour|How long until} {is it|is it now|is midnight|is noon|is lunch|it is}{| in <city>| here| please| by your clock|}?"],
    "knowledge": ["How does {a|the|an|my|your|our} <organ> {work|function|develop|grow|get energy|help us|keep going|fight germs}{| exactly| in detail| at night|}?",
                  "{What is|Explain|What do you know of|Describe|Define|Summarise|Tell us about|Outline|Can you explain|What does it mean,} {the|} {law|principle|concept|idea|history|meaning|origin|science|role|structure|problem|future|danger|invention|basics|discovery} of {<topic>|<organ>s|the <organ>|<person>|<era>|<country>|<unknown>s|the <unknown>}{?|}",
                  "How <measure> is {the <planet>|a <unknown>|<country>|the <organ>|the <planet> compared to the <planet>|<person>|the road to <city>}{|?| in metres?| exactly?}",
                  "How {far|long|many miles|many kilometres|many hours} is {it |the way |}{from|between} {<city>|here|the <planet>|<country>|the earth} {to|and} {<city>|the <planet>|<country>|the sea}?",
                  "{Who|Which person|Which artist|What man|What woman} {painted|composed|sang|invented|directed|published|made|discovered|translated|built|played in} {<work>|the <organ>|<topic>|the <planet>|the <unknown>}{|?| first?}",
                  "Who {is the author of|was the hero of|wrote the book|wrote the song|is the main character in|was the first to read|plays in} <work>?",
                  "{What|Who|How|When} {caused|started|ended|led to|began|did people survive|won|stopped|followed after} {<era>|<topic>|the war in <country>|the fire of <city>}{|?| and why?}",
                  "{When|Where|Why|How} {did|was|were} {<era>|<person>|<topic>|the <unknown>|the <organ>} {happen|begin|end|born|invented|start|found|discovered|live|become famous|build it}?",
                  "{How many|How much|What number of} {inhabitants|women|cars|stars|languages|islands|lakes|cities|soldiers|schools|books|fish|words|religions|rivers|mountains|trees} {live|are|are there|exist|can be found|were} {in <country>|in <city>|in the sea|on earth|in the world|in Africa|in Asia|in Europe|in space|in English|in America}?",
                  "Why {do|does|is|are|did|can} {the sky|stars|the moon|people|the sea|leaves|dreams|ice|fire|cats|glass|onions|bees|wood|metal|<person>|the <planet>|the <organ>|<topic>} {blue|shine|fall|dream|salty|red|burn|float|important|so famous|die|purr|break|make us cry|exist|get old|move|glow|matter|happen|dangerous}?",
                  "{Explain|Tell me|Teach me|Describe|Show <me>|I want to learn|I want to understand|Do you know|Give a talk on|Make it clear to <me>} {how|why|when|where} {<topic> works|<topic> began|a <organ> works|a <unknown> is made|<era> ended|<person> died|<person> became famous|<unknown>s are used|the <planet> was formed|planes stay up|ships float|the world began}{|.|?}",
                  "What is {the|a} {formula|symbol|capital letter|mass|speed|weight|age|population|area|language|religion|currency|anthem|flag|origin|colour code|number|density|price} {of|for} {<country>|<city>|<topic>|the <planet>|the <organ>|a <unknown>|water|iron|gold|salt|oxygen|light}?",
                  "{What|Which} {is|was} the {first|largest|longest|highest|oldest|smallest|fastest|most famous|best|second largest|richest|deepest} {country|city|river|mountain|animal|building|lake|company|book|film|planet|<unknown>|island|ocean|tower|war|bridge} {|in the world|of all time|on earth|in history|in <country>|in Europe|ever}?"],
    "advice": ["{My|Our|Her|His} <gadget> <broken>{, what {can|should|do|must|could} {I|we} do|, help|, any idea|, can you fix it|. What now|. Can you help|, please help|. What do I do|. Who can repair it}{?|}",
               "{I am|I'm|I feel|I think I am|My son is|My wife feels|My dog seems|She is|Maybe I am} <ill>{, what {can|should|do} I do|, help|, what helps|. Should I see a doctor|. Which medicine helps|. What now|, is that bad|, please help me}{?|}",
               "{I have|I've got|I think I have|My child has|My mother has|He has|Maybe I caught|I might have|I woke up with} <sick>{, what {can|should|do} I do|. What helps|, is it bad|. Which pill is right|, should I stay home|. Can you help me|}{?|.|}",
               "{Should|Shall|Can|May|Must|Could|Would it be good if} {I|we|my son|my sister|people} {learn|study|buy|sell|choose|take|move to|visit|trust|eat|drink|read|use|wear|marry|leave} {<topic>|<money>|<city>|<country>|<unknown>|coffee|my boss|my husband|a cat|meat|this job|law|medicine|<tongue>}{| or {<code>|<topic>|<money>|<city>|<unknown>|stay|not|tea|something else|<tongue>}}?",
               "{How much|How many|How often|How long|How fast|How early} {money |}{should|must|can|do|could} {I|we|one|people|a family} {spend|invest|earn|eat|drink|run|sleep|pay|work|walk|owe|tip|lose|put aside}{| a month| a day| for <money>| for my children| each week| at my age| before I retire|}?",
               "{What|Which} {<unknown>|<gadget>|car|school|job|present|film|diet|bank|book|sport|dress|course|phone|holiday|name for my baby} {should|would you|can|must|do} {I|recommend|we|suggest|you advise} {|choose|buy|take|watch|read|give|try}{| for my wife| for a child| this year| to me|}?",
               "{Where|How} {can|do|should|could|would} {I|we|my friends} {find|get to|reach|go to|look for|get} <place>{| in <city>| near here| tonight| quickly| on foot|}?",
               "{How|What is the way|What is a good way|Do you know how|Tell me how|Any tips how|I wonder how|Show <me> how|Advise me how} {do I|can I|to|one can|should I|would you} <action>{| quickly| at home| for free| without help| safely|}?"],
    "writing": ["{Write|Compose|Draft|Prepare|Make|Create|Finish|Produce|Please write|Could you write|Can you prepare|Help me write|I need|I want|Think up|Send me} {me |us |}{<writing>|a toast|an invitation|a card|a postcard|a greeting|a slogan|an advert|a diary entry|a lecture|a talk|a paper|a thesis|a sermon|a sketch|lyrics|a complaint|an application|a thank-you note} {for|about|on|to|for <me> about} {<occasion>|<topic>|<person>|my teacher|the newspaper|my landlord|my mother|the bank|<era>|our team|<city>|my aunt}{|.|, please|?}",
                "{Turn|Change|Make|Rewrite|Convert|Shorten|Expand|Format|Transform|Put} {this|these|my|the|our} {text|letter|ideas|bullet points|lines|email|draft|report|paragraph|speech|sentences|list|minutes|essay} {into|to|as} {<writing>|a table|a list|a summary|better English|formal English|two pages|something funny|one sentence|a nicer form|slides}{|.|, please}",
                "{Give|Send|Show|Write|Tell} {me|us} {feedback|comments|your opinion|corrections|a review|notes|criticism|a mark|advice} {on|about|for|to} {my|our|this|the} {text|novel|letter|homework|speech|poem|report|paper|story idea|application|talk|article|thesis}{|.|, please}",
                "{Check|Correct|Improve|Proofread|Review|Edit|Polish|Read|Grade|Mark|Judge|Comment on|Summarise|Sum up|Analyse} {my|our|this|the} {essay|text|novel|letter|homework|speech|poem|report|paper|grammar|application|article|thesis|book|chapter|document|contract}{| for me| for mistakes| by tomorrow|, please|}{|.}"],
    "doing": ["{Show|Draw|Paint|Send|Make|Give|Find|Create|Generate|Print|Design|Get|Play} {me |us |my mother |}{a|some|the|a few|one} {<show>|<show>s|nice <show>|<show> or two} {of|with|about} {<thing>|<person>|<topic>|<city>}{|.|, please|?}",
              "{Find|Book|Buy|Order|Get|Look for|Search for|Reserve|Compare|Check|Pay for|Can you book|Can you find|Please order|Could you get|I need|Deliver} {me |us |}<goods>{| for me| for tomorrow| online|, please| right now| today|}{|.|?}",
              "{Call|Phone|Ring|Text|Email|Invite|Message|Contact|Wake|Tell|Pick up|Ask|Fetch} {my|the|our} {mother|father|doctor|boss|police|neighbour|friend|teacher|sister|plumber|bank|wife|school|brother|office}{| for me| and say hello| at once|, please| that I am late| tomorrow at seven|}{|.}",
              "{Switch|Turn|Put|Set|Move|Lock|Open|Close|Start|Stop|Dim|Clean|Charge|Restart} {on |off |up |down |}{<device>|my <gadget>|the <gadget>|the volume|the window|the blinds|the coffee machine|the fan}{|, please| at seven| for me| in the kitchen| now|}{|.}",
              "{Remind|Wake|Warn|Tell} me {in an hour|at six|tomorrow|on Monday|later|before lunch|every day} {to|that I must|about} {<action>|take my pills|call home|the meeting|feed the fish|go shopping|the dentist}{|.}",
              "{Go|Come|Look|Click|Log in|Sign up|Connect|Surf|Drive|Walk} {to|on|at|into|with|in} {<city>|my account|the website|the shop|the link|the internet|google|the window|my house|the server|facebook|my photos}{| and tell me what you see| for me| now|, please|}{|.}"],
    "chores": ["{Can you|Could you|Please|Would you|I want you to|I need you to|Are you able to|Will you|Do you know how to|Help <me> to|It would be nice if you could|Why don't you|I would love you to|Go and|Try to|You must|Now|My friend says you can|Is it true that you can} {please |quickly |really |also |just |}<chore>{| for me| for <me>| now| today| again| tonight| with me|, please| and then {<chore>|stop}}{|?|.}"],
    "unknown": ["{What|How|Where|Why|When|Who|Which} {is|are|was|were|does|makes|uses|needs|has|can} {a|an|the|your|my|any|this} {|new |old |good |modern |big |first |cheap |real }<unknown>{| work| do| cost| for| made of| used for| in <country>| look like| mean| called| today| exactly| needed| break}?",
                "{Tell|Teach|Show|Explain to|Give} me {something|everything|a bit|more|the truth|a fact|all|two facts|some facts} about {a|an|the|my|your|every} <unknown>{| in <country>| of today| and its use|}{|.|, please}",
                "{I would like|I want|I need|I plan|I hope} to {know about|learn about|understand|see|buy|build|visit|read about|study} {a|an|the|my} <unknown>{|, can you help|, tell me more|. What should I know}{|.|?}"],
    "hard sums": ["{What is|Work out|Calculate|How much is|Tell me|Compute|Solve|Please compute|Can you do|I need|Find} {<large> {plus|minus|times|divided by|+|-|*|/|and|take away|over|multiplied by} {<large>|<middle>}|<middle> {times|*|multiplied by|x} {<large>|<middle>}|the {square root|cube|logarithm|sine|square|half|tenth|cosine} of {<large>|<middle>}|<middle> percent of <large>}{|?|.|, please}"],
    "nonsense": ["<noise> <noise>{| <noise>|?|!| <noise>?|...}", "<noise>{|?|!| or <noise>| and <noise>}", "{|the |my |a |such |no }<noise> {is|was|of|in|with|for|to|and} {|the |a |my }<noise>{|.|?|!}"],
    "privacy": ["{Do you know|Can you guess|Tell me|What is|Guess|Can you see|Did I tell you|Remember|Find out|Say} {my|our|my wife's|my mother's|my brother's|my friend's} {age|address|password|phone number|job|birthday|street|size|shoe size|favourite song|favourite film|bank account|email|school|weight|hobby|car|plan for today|secret|dog's name|last name}{|?|.}",
                "{What|Where|When|With whom|Why} {did|do|was|will|am|have} I {eat|go|buy|say|do|dream|born|sleep|live|work|meet|lose|write|promised|been|wearing|thinking of} {|yesterday|last night|today|this morning|on Monday|tomorrow|right now|last week}?"],
}


def noise(r: Draw) -> str:
    """Something that nobody says."""
    if r.chance(0.4):
        return r.made_up().lower()
    return "".join(r.choice("bcdfghjklmnpqrstvwxzaeiouy") for _ in range(r.randint(2, 7)))


def request(r: Draw) -> Turn:
    """A request that the model cannot do, drawn from the lists or put together from parts."""
    if r.held or r.chance(0.4):
        return out_of_scope(r)
    kind = r.choice(list(COMPOSED) + ["knowledge", "knowledge", "code", "language", "advice", "writing", "doing", "news", "weather"])
    patterns = COMPOSED[kind]
    if kind == "nonsense":
        slots = {"noise": [noise(r) for _ in range(4)]}
    elif kind == "hard sums":
        slots = {"large": [str(r.randint(1000, 99999)) for _ in range(2)], "middle": [str(r.randint(101, 999)) for _ in range(2)]}
    else:
        slots = SLOTS
    text = expand(r, r.choice(patterns), slots).replace("  ", " ").replace(" ?", "?").strip()
    answers = OUT[kind][1] or OUT["knowledge" if kind == "unknown" else "doing"][1]
    return Turn(text[0].upper() + text[1:], r.choice(answers), thought="This is more than I can do, and I should say so.")


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
