"""Requests written by hand, not drawn: how strangers may greet, ask about the model, or ask for too much. Training never
sees them; by what they want."""

import re

REQUESTS = {
    "hello": ["Good evening, dear machine", "hey, just checking in to say hi", "Hello from the other side of the world", "Oh hello, I did not see you there", "Hi, is it a good day for you?", "Rise and shine!"],
    "thanks": ["You are a star, thanks", "Thanks, I could not have done it without you", "thank you for all of this"],
    "bye": ["Well, I'd better be going. Bye!", "Catch you later"],
    "who": ["Could you tell me a bit about who you are?", "Do I talk to a person or to a computer here?", "What name did they give you?"],
    "what": ["How can you make yourself useful?", "Please list everything that you can do", "What could I ask you about?"],
    "made": ["Who put you together?", "What company do you come from?"],
    "beyond": ["Build me a website with React", "Why does my for loop never end?", "Generate a Dockerfile for a Node app", "Explain what a pointer is in C", "Translate the word apple into Italian", "Say thank you in Japanese", "Wo ist der Bahnhof?", "Je voudrais un cafe.", "Any breaking news?", "Who won the match between Spain and Italy?", "Who is the mayor of London?", "Is it going to snow on Christmas?", "What is the date tomorrow?", "How does the immune system work?", "What is the theory of evolution?", "How far is the sun from the earth?", "Who wrote Romeo and Juliet?", "What caused the first world war?", "How many people live in China?", "My laptop does not start, what can I do?", "I think I have the flu, help", "Should I learn Java or Python?", "How much money should I save?", "Write a birthday speech for my grandfather", "Turn these notes into a report", "Give me feedback on my essay", "Call a taxi for me", "Find cheap flights to Rome", "Show me pictures of cats", "What is 88888 minus 12345?", "zzkt plo"],
}

# Written after the model that ships was trained, before it was asked.
SECOND = {
    "hello": ["Good to have somebody here to chat with!", "Hullo, anyone about?", "Just popping by, hi!", "Hey stranger, how's life treating you?", "It's me, your neighbour, good morning", "Hello my clever little helper", "How do things look on your side?", "A very warm welcome to you"],
    "thanks": ["That was super useful, cheers", "I'm obliged to you", "You really helped me out there, thanks so much", "Thank you, that cleared it up"],
    "bye": ["Time for bed, good night!", "I'm heading out now, talk soon", "Okay, that was all, bye-bye", "See you around, my friend"],
    "who": ["Mind introducing yourself?", "So, what's your name then?", "Am I chatting with a human being?"],
    "what": ["What sort of help can I get here?", "Tell me which things you are good at", "What are you able to do for a child?", "Which questions are you able to answer?"],
    "made": ["Who is the person that created you?", "Where do you originally come from?", "Which folks trained you?"],
    "beyond": ["Write a unit test for my Go function", "How do I centre a div in CSS?", "Convert this loop to Haskell", "Why is my Kubernetes pod crashing?", "Say good night in Polish", "Wie spät ist es?", "Que tal?", "What happened in the news this morning?", "Will the sun shine on Saturday?", "What's the date?", "How do vaccines work?", "Who discovered penicillin?", "How tall is Mount Everest?", "Explain the French Revolution", "My printer is jammed, what now?", "My tooth hurts a lot", "Is it smart to buy a house now?", "Compose a love letter for my wife", "Shorten this article for me", "Order a large pizza", "Show me a map of Spain", "What is 7350 times 12?", "blorf wug zim", "What did I have for breakfast?"],
}


def plain(text: str) -> str:
    """The text without what does not matter: case, marks, spaces."""
    return re.sub(r"[^a-z0-9]+", " ", text.lower()).strip()


PLAIN = {plain(text) for requests in (REQUESTS, SECOND) for texts in requests.values() for text in texts}


def is_held(text: str) -> bool:
    """Whether a text says the same as one of them."""
    return plain(text) in PLAIN
