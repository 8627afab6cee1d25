"""Small talk, tools, and conversations that put everything together."""

import json

import beyond
import held_out
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
        # Not a request that one of the tools is for.
        turn = small_talk(r) if r.chance(0.3) else skills.draw(r)
        return tools, [user(turn.user), answer(turn.answer)]
    asks, arguments, result, reply = {
        "get_weather": lambda: (["What is the weather in {x}?", "How is the weather in {x}?", "Is it warm in {x}?", "Weather in {x}?", "What's the weather like in {x} today?", "Tell me the weather in {x}.", "Do I need an umbrella in {x}?", "weather {x}", "How warm is it in {x}?", "Will I need a coat in {x}?", "Is it cold in {x}?", "Is it raining in {x}?", "Is the sun shining in {x}?", "Please check the weather in {x}.", "How hot is it in {x}?", "Give me the weather for {x}.", "What's it like outside in {x}?", "Can you check the weather in {x}?", "And the weather in {x}?"],
                                {"city": city}, *weather(r, city)),
        "get_time": lambda: (["What time is it in {x}?", "What's the time in {x}?", "How late is it in {x}?", "Tell me the time in {x}.", "time in {x}", "Time in {x}?", "Can you tell me the time in {x}?", "What is the time in {x} now?", "Which time is it in {x}?", "Do you know the time in {x}?", "I need the time in {x}.", "What does the clock say in {x}?", "Is it late in {x}?", "Please check the time in {x}.", "What hour is it in {x}?", "Give me the time in {x}.", "What time do they have in {x}?", "Which hour is it in {x} now?", "Is it night in {x}?"], {"city": city}, *clock(r, city)),
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
    asks = ["What is {x}?", "{x}", "Calculate {x}.", "How much is {x}?", "{x} =", "Work out {x}.", "Compute {x}.", "What's {x}?", "Tell me what {x} is.", "Can you work out {x}?", "I need {x}.", "Please compute {x}.", "Give me {x}.", "What do I get for {x}?", "{x} is how much?", "Use the calculator: {x}", "How much does {x} make?", "Find {x}.", "What is the result of {x}?"]
    return asks, {"expression": f"{a} {op} {b}"}, str(value), f"{a} {op} {b} = {value}."


def played(r: Draw):
    title = r.choice(SONGS)
    asks = ["Play {x}.", "Play the song {x}.", "Please play {x}.", "Can you play {x}?", "I want to hear {x}.", "Put on {x}.", "play {x}", "Let me hear {x}.", "Start the song {x}.", "Could you put on {x}?", "Play me {x}.", "Next song: {x}.", "Play {x} again.", "Please start {x}.", "Turn on {x}.", "Music! {x}, please.", "I would like to listen to {x}.", "Would you play {x} for me?", "Sing me {x}."]
    return asks, {"title": title}, "ok", f"Now playing {title}."


def timer(r: Draw):
    n = r.randint(1, 60)
    asks = ["Set a timer for {x} minutes.", "Timer for {x} minutes.", "Please set a timer for {x} minutes.", "Wake me in {x} minutes.", "Start a timer of {x} minutes.", "Tell me when {x} minutes are over.", "timer {x} minutes", "I need a timer for {x} minutes.", "Can you set a timer for {x} minutes?",
            "Remind me in {x} minutes.", "Set the timer to {x} minutes.", "Count down {x} minutes.", "Give me a timer of {x} minutes.", "In {x} minutes, tell me.", "Let me know after {x} minutes.", "Ring in {x} minutes.", "Please start a timer for {x} minutes.", "{x} minutes, go!", "The eggs need {x} minutes."]
    return asks, {"minutes": n}, "ok", f"The timer is set for {n} minutes."


def translated(r: Draw):
    text, tongue, made = r.choice(beyond.SENTENCES), r.choice(beyond.TONGUES), " ".join(r.made_up().lower() for _ in range(r.choice([1, 2])))
    asks = ["Translate '{x}' into {y}.", "How do you say '{x}' in {y}?", "What is '{x}' in {y}?", "Translate '{x}' to {y}.", "Say '{x}' in {y}.", "What does '{x}' mean in {y}?", "I want to say '{x}' in {y}.", "How do I say '{x}' in {y}?", "What is the {y} word for '{x}'?", "Put '{x}' into {y}.", "'{x}' in {y}, please.", "Please translate '{x}' into {y}.", "Give me '{x}' in {y}.", "How would one say '{x}' in {y}?", "Tell me '{x}' in {y}.", "I need '{x}' in {y}.", "Write '{x}' in {y}.", "What do they say for '{x}' in {y}?", "Can you translate '{x}' into {y}?"]
    return asks, {"text": text, "language": tongue}, made, f"In {tongue} it is \"{made}\"."


def searched(r: Draw):
    topic = r.choice(beyond.TOPICS + beyond.FAMOUS)
    asks = ["Search the web for {x}.", "Look up {x}.", "Search for {x}.", "Find something about {x}.", "What can you find about {x}?", "Google {x}.", "search {x}", "Look for {x} on the internet.", "Please search for {x}.", "Find out about {x}.", "Can you look up {x}?", "Search {x} online.", "Show me what there is about {x}.", "Please google {x}.", "What does the web say about {x}?", "Look up something about {x}.", "Browse for {x}.", "I want to find pages about {x}.", "Find {x} on the web."]
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


FILLERS = "really just maybe please actually also simply well perhaps now then again dear quickly kindly honestly".split()


def blur(r: Draw, text: str) -> str:
    """The text with a word too many or too few, or a slip of the finger: what is meant must not hang on one word."""
    words = text.split(" ")
    if len(words) < 4:
        return text
    i, kind = r.randrange(1, len(words) - 1), r.randrange(3)
    if kind == 0 and len(words) > 5:
        del words[i]
    elif kind == 1 or len(words[i]) < 5:
        words.insert(i, r.choice(FILLERS))
    else:
        at = r.randrange(1, len(words[i]) - 2)
        words[i] = words[i][:at] + words[i][at + 1] + words[i][at] + words[i][at + 2:]
    return " ".join(words)


def talk_or_skill(r: Draw) -> Turn:
    """One turn of any kind but a story."""
    pick = r.random()
    if pick < 0.42:
        draw = small_talk if pick < 0.22 else beyond.request
        turn = draw(r)
        while held_out.is_held(turn.user) and not r.held:
            turn = draw(r)
        if r.chance(0.12):
            turn.user = blur(r, turn.user)
        return turn
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
