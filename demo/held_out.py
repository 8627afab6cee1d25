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


def plain(text: str) -> str:
    """The text without what does not matter: case, marks, spaces."""
    return re.sub(r"[^a-z0-9]+", " ", text.lower()).strip()


PLAIN = {plain(text) for texts in REQUESTS.values() for text in texts}


def is_held(text: str) -> bool:
    """Whether a text says the same as one of them."""
    return plain(text) in PLAIN
