"""Questions with one right answer. Each skill takes a [Draw] and returns a [Turn]."""

import lexicon as lx
from draw import Draw, Turn

OPPOSITES: dict[str, str] = {}
for left, right in lx.pairs(lx.OPPOSITES):
    OPPOSITES.setdefault(left, right)
    OPPOSITES.setdefault(right, left)
CAPITALS = lx.capitals()
ANIMALS = lx.animals()
COLOURS = lx.pairs(lx.COLOUR_OF)
MIXES = lx.pairs(lx.MIXES)


# Words that can be spelled.
SPELLED = list(dict.fromkeys(lx.WORDS + [w for w in OPPOSITES if " " not in w] + [row[0] for row in ANIMALS] + lx.TRAITS + lx.COLOURS + lx.DAYS + lx.MONTHS))
# What sounds like a question of a skill but has no answer in it.
NO_CAPITAL = """Texas California Bavaria Mars Africa Europe Asia Quebec Florida Tuscany Siberia Alaska Atlantis Narnia Hawaii Ohio Utah Flanders Catalonia
Antarctica Jupiter Utopia Wonderland Hogwarts Sicily Tokyo Paris Normandy Saxony Nevada Ontario Kansas Andalusia Corsica Transylvania Neverland Mordor""".split()
NO_YOUNG = """dinosaur dragon crab lobster shark snail worm crocodile parrot octopus lizard panda koala moose bison squirrel rat bat beaver otter walrus
unicorn robot peacock ostrich raccoon jellyfish starfish llama sparrow crow dolphin hippo rhino""".split()
NO_OPPOSITE = """table chair banana cup tree horse guitar bread paper spoon Monday apple window river music shoe tiger pencil car rabbit number letter blue
green cheese potato computer football sugar bottle monkey bridge castle""".split()


def cap(text: str) -> str:
    return text[0].upper() + text[1:]


def opposite(r: Draw) -> Turn:
    word, other = r.choice(list(OPPOSITES.items()))
    if not r.held and r.chance(0.06):
        word, other = r.choice(NO_OPPOSITE), ""
    user = r.say([
        "What is the opposite of {w}?", "What's the opposite of {w}?", "Tell me the opposite of {w}.",
        "Opposite of {w}?", "Which word is the opposite of {w}?", "Give me the opposite of {w}.",
        "The opposite of {w} is?", "What is the opposite of the word {w}?", "Name the opposite of {w}.",
        "Do you know the opposite of {w}?",
        "What word means the opposite of {w}?", "Can you tell me the opposite of {w}?", "the opposite of {w}",
        "If something is not {w}, what is it?", "What is the contrary of {w}?", "{w} is the opposite of what?",
        "Say the opposite of {w}.", "What is the opposite of \"{w}\"?", "I need the opposite of {w}.",
        "Could you give me the opposite of {w}?"], w=word)
    if not other:
        return Turn(user, f"I do not know an opposite of {word}.", "None", f"There may be no word that means the reverse of {word}.")
    return Turn(user, f"The opposite of {word} is {other}.", other, f"The user wants a word that means the reverse of {word}.")


def capital(r: Draw) -> Turn:
    country, city = r.choice(CAPITALS)
    if not r.held and r.chance(0.08):
        country, city = r.choice(NO_CAPITAL) if r.chance(0.7) else r.made_up(), ""
    user = r.say([
        "What is the capital of {c}?", "What's the capital of {c}?", "Which city is the capital of {c}?",
        "Tell me the capital of {c}.", "Capital of {c}?", "Name the capital of {c}.", "Do you know the capital of {c}?",
        "What is the capital city of {c}?", "Which city is {c}'s capital?", "Can you tell me the capital of {c}?",
        "What is the name of the capital of {c}?", "The capital of {c} is?", "I want to know the capital of {c}.",
        "What city is the capital of {c}?", "Give me the capital of {c}.", "the capital of {c}",
        "Say the capital of {c}.", "{c}: what is its capital?", "What's the name of the capital city of {c}?",
        "Please name the capital city of {c}."], c=country)
    if not city:
        return Turn(user, f"I do not know a capital of {country}. I only know the capitals of countries.", "Unknown", f"I do not know {country} as a country.")
    return Turn(user, f"The capital of {country} is {city}.", city, f"This is a question about the capital of {country}.")


def capital_reverse(r: Draw) -> Turn:
    country, city = r.choice(CAPITALS)
    if city == "London":
        country = "the United Kingdom"
    user = r.say([
        "{c} is the capital of which country?", "Which country has the capital {c}?", "What country is {c} the capital of?",
        "Of which country is {c} the capital?", "In which country is {c}?", "Where is {c}?", "{c} is in which country?",
        "What country is {c} in?", "Which country does {c} belong to?", "Tell me in which country {c} is.",
        "In what country can I find {c}?"], c=city)
    return Turn(user, f"{city} is the capital of {country}.", country, f"The user asks where {city} is.")


def young(r: Draw) -> Turn:
    animal, child, *_ = r.choice(ANIMALS)
    if not r.held and r.chance(0.08):
        animal, child = r.choice(NO_YOUNG), ""
    user = r.say([
        "What is a baby {a} called?", "What do you call a baby {a}?", "What is the name of a young {a}?",
        "What is a young {a} called?", "How do you call a young {a}?", "What's the young of {aa} called?",
        "Tell me what a baby {a} is called.", "What is the baby of {aa}?", "A baby {a} is called what?",
        "What do we call a young {a}?", "What is the word for a baby {a}?", "Name the young of {aa}.",
        "What's a baby {a} called?", "A young {a} is called?", "Which word do we use for a baby {a}?",
        "How is a baby {a} called?", "baby {a}, what is it called?", "Do you know what a baby {a} is called?",
        "Give me the word for a young {a}.", "What is the right name for a baby {a}?"], a=animal, aa=lx.a(animal))
    if not child:
        return Turn(user, f"I do not know what a baby {animal} is called.", "Unknown", f"I have never learned about a young {animal}.")
    return Turn(user, f"A baby {animal} is called {lx.a(child)}.", child, f"The user asks for the young of {lx.a(animal)}.")


def sex(r: Draw) -> Turn:
    while True:
        animal, _, male, female, *_ = r.choice(ANIMALS)
        if male != female:
            break
    kind, name = r.choice([("male", male), ("female", female)])
    user = r.say([
        "What is a {k} {a} called?", "What do you call a {k} {a}?", "What is the name of a {k} {a}?",
        "A {k} {a} is called what?", "Tell me what a {k} {a} is called.", "What's a {k} {a} called?",
        "What do we call a {k} {a}?", "How do you call a {k} {a}?", "What is the word for a {k} {a}?",
        "Do you know what a {k} {a} is called?", "Which word do we use for a {k} {a}?", "Name for a {k} {a}?",
        "What is the right word for a {k} {a}?"], k=kind, a=animal)
    return Turn(user, f"A {kind} {animal} is called {lx.a(name)}.", name, f"The user asks for the {kind} of an animal.")


def sound(r: Draw) -> Turn:
    while True:
        animal, *_, noise, _ = r.choice(ANIMALS)
        if noise:
            break
    user = r.say([
        "What sound does {aa} make?", "What noise does {aa} make?", "How does {aa} sound?", "What does {aa} do to make a sound?",
        "Which sound does {aa} make?", "What sound do {a}s make?" if not animal.endswith(("s", "x", "sh", "ch", "fish", "sheep", "mouse", "goose", "wolf", "fox", "deer", "monkey", "donkey", "turkey")) else "What is the sound of {aa}?",
        "Tell me the sound of {aa}.", "What is the sound that {aa} makes?", "Do you know what sound {aa} makes?",
        "What kind of sound does {aa} make?", "Can you tell me what sound {aa} makes?"], a=animal, aa=lx.a(animal))
    return Turn(user, f"{cap(lx.a(animal))} {noise}.", noise, f"The user asks what {lx.a(animal)} sounds like.")


def home(r: Draw) -> Turn:
    animal, *_, place = r.choice(ANIMALS)
    user = r.say([
        "Where does {aa} live?", "What is the home of {aa}?", "Where can {aa} live?", "Where is the home of {aa}?",
        "In what place does {aa} live?", "Tell me where {aa} lives.", "Do you know where {aa} lives?",
        "Where would I find {aa}?", "Where does {aa} sleep?", "What is {aa}'s home?", "Where do I find {aa}?"],
        a=animal, aa=lx.a(animal))
    where = "on" if place in ("the savanna", "a farm", "the ice", "the coast", "a meadow") else "in"
    if place in ("a pond", "a lake"):
        where = "by"
    return Turn(user, f"{cap(lx.a(animal))} can live {where} {place}.", "", f"The user asks about the home of {lx.a(animal)}.")


def legs(r: Draw) -> Turn:
    animal, count = r.choice(list(lx.LEGS.items()))
    user = r.say([
        "How many legs does {aa} have?", "How many legs has {aa}?", "Number of legs of {aa}?", "Tell me how many legs {aa} has.",
        "Do you know how many legs {aa} has?", "What number of legs does {aa} have?", "Count the legs of {aa}.",
        "{aa} has how many legs?", "How many legs are there on {aa}?", "Can you tell me how many legs {aa} has?",
        "How many legs can you count on {aa}?"], aa=lx.a(animal))
    legs = "no legs" if count == 0 else f"{count} legs"
    return Turn(user, f"{cap(lx.a(animal))} has {legs}.", str(count), f"I have to think of {lx.a(animal)} and its legs.")


def colour(r: Draw) -> Turn:
    thing, hue = r.choice(COLOURS)
    spelt = r.choice(["colour", "color"])
    user = r.say([
        "What {s} is {t}?", "What is the {s} of {t}?", "Which {s} has {t}?", "Tell me the {s} of {t}.",
        "What {s} does {t} have?", "{t} has which {s}?", "Which {s} is {t}?", "What's the {s} of {t}?",
        "Do you know the {s} of {t}?", "Can you say what {s} {t} is?", "Name the {s} of {t}.", "The {s} of {t}?",
        "I forgot the {s} of {t}.", "What {s} would you paint {t}?"], s=spelt, t=thing)
    return Turn(cap(user), f"{cap(thing)} is {hue}.", hue, f"I have to picture {thing}.")


def mix(r: Draw) -> Turn:
    both, hue = r.choice(MIXES)
    one, two = both.split(" and ")
    if r.chance(0.5):
        one, two = two, one
    user = r.say([
        "What do you get when you mix {x} and {y}?", "What colour do {x} and {y} make?", "Mix {x} and {y}.",
        "Which colour comes from {x} and {y}?", "What happens if I mix {x} and {y}?", "{x} and {y} make which colour?",
        "What is {x} mixed with {y}?", "If I mix {x} with {y}, what do I get?", "Which colour do you get from {x} and {y}?",
        "I mix {x} paint with {y} paint. What colour is it?", "What colour is {x} plus {y}?"], x=one, y=two)
    return Turn(user, f"{cap(one)} and {two} make {hue}.", hue, f"The user mixes {one} with {two}.")


def neighbour(r: Draw) -> Turn:
    ring, kind = r.choice([(lx.DAYS, "day"), (lx.MONTHS, "month")])
    i = r.randrange(len(ring))
    side, step = r.choice([("after", 1), ("before", -1)])
    name, other = ring[i], ring[(i + step) % len(ring)]
    user = r.say([
        "What {k} comes {s} {n}?", "Which {k} comes {s} {n}?", "Which {k} is {s} {n}?", "What is the {k} {s} {n}?",
        "Tell me the {k} {s} {n}.", "What {k} is {s} {n}?", "Name the {k} {s} {n}.", "What's the {k} {s} {n}?",
        "Do you know which {k} comes {s} {n}?", "Can you tell me what {k} comes {s} {n}?", "The {k} {s} {n}?",
        "What comes {s} {n}?"], k=kind, s=side, n=name)
    return Turn(user, f"{other} comes {side} {name}.", other,
                f"I go through the {kind}s until I reach {name}.")


def today(r: Draw) -> Turn:
    i = r.randrange(7)
    ask, step = r.choice([("tomorrow", 1), ("yesterday", -1)])
    day, other = lx.DAYS[i], lx.DAYS[(i + step) % 7]
    verb = "is" if step > 0 else "was"
    user = r.say([
        "Today is {d}. What day {v} {a}?", "If today is {d}, what day {v} {a}?", "It is {d} today. Which day {v} {a}?",
        "If it is {d}, what {v} {a}?", "Today is {d}, so what day {v} {a}?", "What day {v} {a} if today is {d}?",
        "It's {d}. What day {v} {a}?", "Say today is {d}. What day {v} {a}?", "Suppose it is {d}. What day {v} {a}?",
        "When today is {d}, which day {v} {a}?", "Today it is {d}. Tell me what day {v} {a}."], d=day, v=verb, a=ask)
    return Turn(user, f"If today is {day}, {ask} {verb} {other}.", other, f"I count one day from {day}.")


def calendar(r: Draw) -> Turn:
    kind = r.randrange(5)
    if kind == 0:
        i = r.randrange(12)
        days = lx.MONTH_DAYS[i]
        user = r.say([
            "How many days does {m} have?", "How many days are in {m}?", "How many days are there in {m}?", "How long is {m}?",
            "Number of days in {m}?", "Tell me how many days {m} has.", "Do you know how many days {m} has?",
            "{m} has how many days?", "What is the number of days in {m}?", "How many days has {m}?", "Days in {m}?"], m=lx.MONTHS[i])
        leap = ", and 29 in a leap year" if i == 1 else ""
        return Turn(user, f"{lx.MONTHS[i]} has {days} days{leap}.", str(days), f"I have to remember the length of {lx.MONTHS[i]}.")
    if kind == 1:
        i = r.randrange(12)
        user = r.say([
            "What is the {o} month of the year?", "Which month is the {o} of the year?", "Name the {o} month.",
            "Which is the {o} month?", "What is the {o} month?", "Tell me the {o} month of the year.", "The {o} month is?",
            "What month is the {o} one?", "Which month is the {o} month?", "Do you know the {o} month of the year?",
            "Which month comes {o} in the year?"], o=lx.ORDINALS[i])
        return Turn(user, f"The {lx.ORDINALS[i]} month is {lx.MONTHS[i]}.", lx.MONTHS[i], "I count the months from January.")
    if kind == 2:
        i = r.randrange(7)
        user = r.say([
            "What is the {o} day of the week?", "Which day is the {o} of the week?", "Name the {o} day of the week.",
            "Which is the {o} day of the week?", "Tell me the {o} day of the week.", "The {o} day of the week is?",
            "What day is the {o} one of the week?", "Which day of the week is the {o}?", "What's the {o} day of the week?",
            "Do you know the {o} day of the week?", "Which day comes {o} in the week?"], o=lx.ORDINALS[i])
        return Turn(user, f"The {lx.ORDINALS[i]} day of the week is {lx.DAYS[i]}.", lx.DAYS[i], "I count the days from Monday.")
    if kind == 3:
        season, months = r.choice(list(lx.SEASONS.items()))
        user = r.say([
            "Which months are in {s}?", "When is {s}?", "What months belong to {s}?", "Tell me the months of {s}.",
            "What are the months of {s}?", "Which months does {s} have?", "Name the months of {s}.", "{s} has which months?",
            "In which months is {s}?", "Do you know the months of {s}?", "What are the {s} months?"], s=season)
        return Turn(cap(user), f"{cap(season)} is in {months}, north of the equator.", "", f"I think of the year and of {season}.")
    what, count, of = r.choice([("days", 7, "a week"), ("months", 12, "a year"), ("hours", 24, "a day"), ("minutes", 60, "an hour"),
                                ("seconds", 60, "a minute"), ("seasons", 4, "a year"), ("days", 365, "a year"), ("weeks", 52, "a year"),
                                ("years", 100, "a century"), ("years", 10, "a decade"), ("metres", 1000, "a kilometre"),
                                ("grams", 1000, "a kilogram"), ("centimetres", 100, "a metre")])
    user = r.say([
        "How many {w} are in {o}?", "How many {w} are there in {o}?", "How many {w} does {o} have?", "Number of {w} in {o}?",
        "Tell me how many {w} are in {o}.", "{o} has how many {w}?", "How many {w} has {o}?", "How many {w} make {o}?",
        "Do you know how many {w} are in {o}?", "What is the number of {w} in {o}?", "How many {w} in {o}?"], w=what, o=of)
    return Turn(cap(user), f"There are {count} {what} in {of}.", str(count), f"I have to remember how long {of} is.")


def list_names(r: Draw) -> Turn:
    kind, names = r.choice([("days of the week", lx.DAYS), ("months of the year", lx.MONTHS), ("seasons", ["spring", "summer", "autumn", "winter"])])
    user = r.say([
        "What are the {k}?", "Name the {k}.", "List the {k}.", "Tell me the {k}.", "Say the {k}.", "Which are the {k}?",
        "Can you list the {k}?", "Give me the {k}.", "Write down the {k}.", "Could you name all the {k}?", "Do you know the {k}?"], k=kind)
    return Turn(user, f"The {kind} are {', '.join(names[:-1])} and {names[-1]}.", "", f"I go through the {kind} in order.")


SUMS = ["What is {a} {o} {b}?", "What's {a} {o} {b}?", "{a} {o} {b}", "{a} {o} {b} =", "{a} {o} {b}?", "How much is {a} {o} {b}?",
        "Calculate {a} {o} {b}.", "Tell me what {a} {o} {b} is.", "What does {a} {o} {b} make?", "Can you work out {a} {o} {b}?",
        "{a} {o} {b} is?", "Compute {a} {o} {b}.", "Solve {a} {o} {b}.", "What is the result of {a} {o} {b}?", "I need {a} {o} {b}.",
        "What do you get for {a} {o} {b}?", "{a} {o} {b} = ?", "Please work out {a} {o} {b}.", "Do you know what {a} {o} {b} is?",
        "How much do I get for {a} {o} {b}?"]


def sums(r: Draw, a: int, b: int, sign: str, words: list[str], result: int) -> Turn:
    shown = r.random()
    op = sign if shown < 0.6 else r.choice(words)
    x, y = str(a), str(b)
    if op not in (sign, "x") and a <= 20 and b <= 20 and r.chance(0.35):
        x, y = lx.NUMBER_WORDS[a], lx.NUMBER_WORDS[b]
    if op == sign and r.chance(0.2):
        user = r.say(SUMS, a=x, b=y, o="\0").replace(" \0 ", sign)
    else:
        user = r.say(SUMS, a=x, b=y, o=op)
    return Turn(cap(user), f"{a} {sign} {b} = {result}.", str(result), f"I have to work out {a} {sign} {b}.")


def add(r: Draw) -> Turn:
    a, b = r.pair(0, 20 if r.held or r.chance(0.6) else 100)
    return sums(r, a, b, "+", ["plus", "and", "plus"], a + b)


def subtract(r: Draw) -> Turn:
    a, b = r.pair(0, 20 if r.held or r.chance(0.6) else 100)
    if a < b and not (a <= 20 and b <= 20 and r.chance(0.15)):
        a, b = b, a
    return sums(r, a, b, "-", ["minus", "take away", "minus"], a - b)


def multiply(r: Draw) -> Turn:
    # Times tables are known by heart: every pair is seen, only phrasings are held out.
    a, b = r.randint(0, 12), r.randint(0, 12)
    if a > 10 and b > 10 and r.chance(0.5):
        a = r.randint(0, 10)
    return sums(r, a, b, "*", ["x", "times", "multiplied by", "times", "x"], a * b)


def divide(r: Draw) -> Turn:
    b, c = r.randint(1, 10), r.randint(0, 10)
    return sums(r, b * c, b, "/", ["divided by"], c)


def double(r: Draw) -> Turn:
    a = r.randint(1, 20)
    kind, result = r.choice([("double", 2 * a), ("half", a)])
    n = a if kind == "double" else 2 * a
    user = r.say([
        "What is {k} of {n}?", "What is {k} {n}?", "{k} of {n}?", "What's {k} of {n}?", "Tell me {k} of {n}.", "How much is {k} of {n}?",
        "Give me {k} of {n}.", "I need {k} of {n}.", "Do you know {k} of {n}?", "Can you work out {k} of {n}?", "What number is {k} of {n}?"], k=kind, n=n)
    return Turn(cap(user), f"{cap(kind)} of {n} is {result}.", str(result), f"I have to {'add' if kind == 'double' else 'split'} {n}.")


def compare(r: Draw) -> Turn:
    a, b = r.pair(0, 100 if r.chance(0.5) else 20)
    if a == b:
        b = a + 1
    word, best = r.choice([("bigger", max(a, b)), ("smaller", min(a, b)), ("larger", max(a, b)), ("greater", max(a, b)), ("less", min(a, b))])
    user = r.say([
        "Which is {w}, {a} or {b}?", "Which number is {w}, {a} or {b}?", "What is {w}, {a} or {b}?", "Is {a} or {b} {w}?",
        "{a} or {b}, which is {w}?", "Which one is {w}: {a} or {b}?", "Tell me which is {w}, {a} or {b}.", "Of {a} and {b}, which is {w}?",
        "Which of {a} and {b} is {w}?", "Take {a} and {b}. Which is {w}?", "Between {a} and {b}, which is {w}?"], w=word, a=a, b=b)
    other = b if best == a else a
    return Turn(user, f"{best} is {word} than {other}.", str(best), f"I compare {a} with {b}.")


def parity(r: Draw) -> Turn:
    n = r.randint(0, 100)
    word = "odd" if n % 2 else "even"
    user = r.say([
        "Is {n} odd or even?", "Is {n} even or odd?", "{n}: odd or even?", "Tell me if {n} is odd or even.", "Is the number {n} odd or even?",
        "Is {n} an even or an odd number?", "Odd or even: {n}?", "Do you know if {n} is odd or even?", "What is {n}, odd or even?",
        "Would you say {n} is odd or even?", "Even or odd, {n}?"], n=n)
    return Turn(user, f"{n} is {word}.", word, f"I look at the last digit of {n}.")


def count(r: Draw) -> Turn:
    kind = r.randrange(4)
    if kind < 2:
        a, b = r.pair(0, 30)
        a, b = min(a, b), min(max(a, b), min(a, b) + 14)
        if a == b:
            b += 3
        down = kind == 1
        first, last = (b, a) if down else (a, b)
        numbers = range(first, last - 1, -1) if down else range(first, last + 1)
        user = r.say([
            "Count from {a} to {b}.", "Count {d} from {a} to {b}.", "Can you count from {a} to {b}?", "Please count from {a} to {b}.",
            "Say the numbers from {a} to {b}.", "Give me the numbers from {a} to {b}.", "List the numbers from {a} to {b}.",
            "Write the numbers from {a} to {b}.", "Tell me the numbers from {a} to {b}.", "I want you to count from {a} to {b}.",
            "Start at {a} and count to {b}."], a=first, b=last, d="down" if down else "up")
    elif kind == 2:
        step, n = r.choice([2, 3, 5, 10]), r.randint(4, 8)
        numbers = range(step, step * n + 1, step)
        user = r.say([
            "Count by {s}s to {b}.", "Count in {s}s up to {b}.", "Count to {b} by {s}s.", "Count in steps of {s} to {b}.", "Skip count by {s} to {b}.",
            "Say the multiples of {s} up to {b}.", "Count by {s} until {b}.", "List the multiples of {s} up to {b}.",
            "Give me the multiples of {s} up to {b}.", "Go up in steps of {s} until {b}.", "Count in {s}s until {b}."], s=step, b=step * n)
    else:
        n = r.randint(3, 20)
        numbers = range(1, n + 1)
        user = r.say([
            "Count to {n}.", "Can you count to {n}?", "Please count to {n}.", "Count up to {n}.", "Let me hear you count to {n}.",
            "Show me how you count to {n}.", "Could you count to {n}?", "count to {n} please", "I want to hear you count to {n}.",
            "Are you able to count to {n}?", "Try to count to {n}."], n=n)
    return Turn(user, ", ".join(map(str, numbers)) + ".", "", "I have to say the numbers in order.")


def sequence(r: Draw) -> Turn:
    start, step = r.pair(1, 12)
    if not r.held and r.chance(0.5):
        start = r.randint(0, 60)
    shown = [start + step * i for i in range(4 if r.held else r.choice([3, 4, 4, 5]))]
    user = r.say([
        "What comes next: {s}?", "Which number comes next: {s}?", "Continue: {s}", "What is the next number: {s}?", "{s}, what comes next?",
        "What number follows {s}?", "Find the next number: {s}.", "Next number: {s}?", "Go on: {s}", "Which number follows: {s}?",
        "How does this go on: {s}?"], s=", ".join(map(str, shown)))
    return Turn(user, f"The next number is {shown[-1] + step}.", str(shown[-1] + step), f"Each number is {step} more than the one before.")


def next_number(r: Draw) -> Turn:
    n = r.randint(1, 99)
    side, other = r.choice([("after", n + 1), ("before", n - 1)])
    user = r.say([
        "What number comes {s} {n}?", "Which number comes {s} {n}?", "Which number is {s} {n}?", "What is the number {s} {n}?", "Number {s} {n}?",
        "What comes {s} {n}?", "Tell me the number {s} {n}.", "Name the number {s} {n}.", "What's the number {s} {n}?",
        "Do you know the number {s} {n}?", "Which number do I say {s} {n}?"], s=side, n=n)
    return Turn(user, f"{other} comes {side} {n}.", str(other), f"I take one step from {n}.")


NOUNS = ["apples", "balls", "books", "cookies", "eggs", "flowers", "marbles", "pears", "pencils", "shells", "stones", "stars",
         "cards", "coins", "nuts", "plums"]


def word_problem(r: Draw) -> Turn:
    girl = r.chance(0.5)
    name, friend = r.any_name(lx.GIRLS if girl else lx.BOYS), r.name()
    thing = r.choice(NOUNS)
    a, b = r.pair(1, 15 if r.chance(0.7) else 40)
    more = r.chance(0.5)
    if not more:
        a, b = max(a, b), min(a, b)
    slots = {"n": name, "f": friend, "a": a, "b": b, "t": thing, "h": "she" if girl else "he", "H": "She" if girl else "He", "his": "her" if girl else "his"}
    start = r.choice(["{n} has {a} {t}", "{n} had {a} {t}", "{n} owns {a} {t}", "{n} keeps {a} {t} in a box", "There are {a} {t} on the table", "{n} bought {a} {t}", "{n} found {a} {t}", "There are {a} {t} in a bag",
                      "{n} picked {a} {t}", "{n} carries {a} {t}", "In {his} room {n} has {a} {t}", "{n} gets {a} {t} from {f}", "{n} collects {t} and has {a} of them", "{n} made {a} {t}"])
    then = r.choice(["{H} gets {b} more", "{f} gives {n} {b} more", "{H} finds {b} more", "Then {h} buys {b} more", "Later {h} gets {b} new ones", "{f} brings {b} more", "{n} adds {b}", "Today {h} gets {b} more {t}", "Then {f} puts {b} {t} beside them", "{H} wins {b} more",
                     "Then {n} picks up {b} others"]
                    if more else ["{H} gives {b} away", "{H} loses {b} of them", "{H} gives {b} to {f}", "{b} of them break", "{f} takes {b}", "{H} sells {b}", "Then {h} drops {b}", "{n} throws {b} away", "{H} uses {b} of them", "Then {b} are gone", "{H} lends {b} {t} to {f}"])
    end = r.choice(["How many {t} does {n} have now?", "How many {t} are there now?", "How many are there now?", "How many {t} is that?", "How many {t} does {h} have?"] if more
                   else ["How many {t} are left?", "How many are left?", "How many {t} does {n} have left?", "How many {t} remain?", "How many {t} does {h} have now?"])
    # What is held out is a way to put the parts together.
    user = r.say(["{s}. {m}. {e}"] * 5 + ["{s} and then this happens: {m}. {e}", "If {l} and this happens: {m}, how many {t} are there?", "Here is a problem. {s}. {m}. {e}", "{s}. After that: {m}. {e}", "{e} {s}. {m}."],
                 s=start.format_map(slots), l=start.format_map(slots), m=then.format_map(slots), e=end.format_map(slots), t=thing)
    total, sign = (a + b, "+") if more else (a - b, "-")
    return Turn(user, f"{a} {sign} {b} = {total}, so the answer is {total}.", str(total), f"I have to work out {a} {sign} {b}.")


def spell(r: Draw) -> Turn:
    word = r.choice(SPELLED)
    user = r.say([
        "Spell {w}.", "How do you spell {w}?", "Spell the word {w}.", "Can you spell {w}?", "Please spell {w}.", "How is {w} spelled?",
        "How do I spell {w}?", "What is the spelling of {w}?", "Spell out {w}.", "Could you spell the word {w}?", "spell {w} for me",
        "Spell \"{w}\".", "Which letters are in {w}?", "Tell me how to spell {w}.", "How do you write {w}, letter by letter?"], w=word)
    return Turn(user, "-".join(word.lower()) + ".", "", f"I have to say the letters of {word} one by one.")


def first_letter(r: Draw) -> Turn:
    word = r.choice(SPELLED)
    which, letter = r.choice([("first", word[0].lower()), ("last", word[-1].lower())])
    user = r.say([
        "What is the {k} letter of {w}?", "Which letter is {k} in {w}?", "What's the {k} letter in {w}?", "Tell me the {k} letter of {w}.",
        "Name the {k} letter of {w}.", "What is the {k} letter of the word {w}?", "The {k} letter of {w}?", "Which is the {k} letter of {w}?",
        "{w}: what is its {k} letter?", "Do you know the {k} letter of {w}?", "Give me the {k} letter of {w}."], k=which, w=word)
    return Turn(cap(user), f"The {which} letter of {word} is {letter}.", letter, f"I spell {word} in my mind: {'-'.join(word.lower())}.")


def length(r: Draw) -> Turn:
    word = r.choice(SPELLED)
    user = r.say([
        "How many letters are in {w}?", "How many letters does {w} have?", "How long is the word {w}?", "How many letters has the word {w}?",
        "Count the letters in {w}.", "Number of letters in {w}?", "Tell me how many letters {w} has.", "How many letters are there in the word {w}?",
        "What is the number of letters in {w}?", "Do you know how many letters {w} has?", "The word {w} has how many letters?"], w=word)
    return Turn(user, f"{cap(word)} has {len(word)} letters: {'-'.join(word.lower())}.", str(len(word)), f"I spell it: {'-'.join(word.lower())}.")


def sort(r: Draw) -> Turn:
    words = r.sample(lx.WORDS, 3)
    while len({word[0] for word in words}) < 3:
        words = r.sample(lx.WORDS, 3)
    x, y, z = words
    user = r.say([
        "Sort these words: {x}, {y}, {z}.", "Put these words in order: {x}, {y}, {z}.", "Sort {x}, {y} and {z}.",
        "Put {x}, {y} and {z} in alphabetical order.", "Sort these words by the alphabet: {x}, {y}, {z}.", "Alphabetical order: {x}, {y}, {z}",
        "Sort: {x}, {y}, {z}", "Can you sort {x}, {y} and {z}?", "Order these words: {x}, {y}, {z}.", "Please put {x}, {y}, {z} in order.",
        "Bring {x}, {y} and {z} into alphabetical order.", "Which order do {x}, {y} and {z} have in the alphabet?"], x=x, y=y, z=z)
    return Turn(user, ", ".join(sorted(words)) + ".", "", f"The first letters are {', '.join(sorted(w[0] for w in words))}.")


def alphabet(r: Draw) -> Turn:
    letters = "abcdefghijklmnopqrstuvwxyz"
    i = r.randrange(26)
    if r.chance(0.08):
        user = r.say(["Say the alphabet.", "What is the alphabet?", "Tell me the alphabet.", "List the letters of the alphabet.", "Do you know the alphabet?",
                      "Write the alphabet.", "Give me the alphabet.", "Name all letters.", "Can you say the alphabet?", "Recite the alphabet.", "What are the letters of the alphabet?"])
        return Turn(user, ", ".join(letters) + ".", "", "I say the letters from a to z.")
    side, j = ("after", i + 1) if i == 0 or (i < 25 and r.chance(0.5)) else ("before", i - 1)
    user = r.say([
        "What letter comes {s} {l}?", "Which letter comes {s} {l}?", "Which letter is {s} {l}?", "What is the letter {s} {l}?", "Letter {s} {l}?",
        "In the alphabet, what comes {s} {l}?", "Tell me the letter {s} {l}.", "Name the letter {s} {l}.", "What's the letter {s} {l}?",
        "Do you know which letter comes {s} {l}?", "What letter do I say {s} {l}?"], s=side, l=letters[i])
    return Turn(user, f"{letters[j]} comes {side} {letters[i]} in the alphabet.", letters[j], f"I go through the alphabet until {letters[i]}.")


def shape(r: Draw) -> Turn:
    name, n = r.choice(list(lx.SHAPES.items()))
    part = r.choice(["sides", "corners"])
    user = r.say([
        "How many {p} does {a} have?", "How many {p} has {a}?", "Number of {p} of {a}?", "Tell me how many {p} {a} has.", "{a} has how many {p}?",
        "What number of {p} does {a} have?", "How many {p} are there on {a}?", "Do you know how many {p} {a} has?", "Count the {p} of {a}.",
        "How many {p} would you count on {a}?", "How many {p} are on {a}?"], p=part, a=lx.a(name))
    return Turn(cap(user), f"{cap(lx.a(name))} has {n} {part}.", str(n), f"I draw {lx.a(name)} in my mind.")


def plural(r: Draw) -> Turn:
    irregular = {"mouse": "mice", "child": "children", "foot": "feet", "tooth": "teeth", "goose": "geese", "man": "men", "woman": "women",
                 "sheep": "sheep", "fish": "fish", "leaf": "leaves", "wolf": "wolves", "knife": "knives", "baby": "babies", "box": "boxes",
                 "city": "cities", "bus": "buses", "potato": "potatoes", "glass": "glasses", "loaf": "loaves", "fox": "foxes"}
    regular = ["dog", "cat", "book", "tree", "house", "apple", "car", "star", "bird", "chair", "table", "lamp", "boat", "cow", "frog"]
    word = r.choice(list(irregular) + regular)
    many = irregular.get(word, word + "s")
    user = r.say([
        "What is the plural of {w}?", "What's the plural of {w}?", "Plural of {w}?", "Tell me the plural of {w}.", "One {w}, two what?",
        "How do you say more than one {w}?", "Give me the plural of {w}.", "What do you call two of {w}?", "The plural of {w} is?",
        "Do you know the plural of {w}?", "What is the plural form of {w}?"], w=word)
    return Turn(user, f"The plural of {word} is {many}.", many, f"I think of more than one {word}.")


MORE_ABOUT_ANIMALS = ["Which sort of animal is {aa}?", "What type of creature is {aa}?", "What animal is {aa}?", "Explain what {aa} is.", "I want to know about {aa}.", "Say what you know about {aa}.",
                      "What sort of creature is {aa}?", "Which type of animal is {aa}?", "What is {aa} like?", "What does one know about {aa}?", "Is {aa} an animal?", "Give me some facts about {aa}.", "What are the facts about {aa}?"]


def about_animal(r: Draw) -> Turn:
    animal, child, _, _, noise, place = r.choice(ANIMALS)
    user = r.say([
        "Tell me about the {a}.", "Tell me about {aa}.", "What is {aa}?", "What do you know about {aa}?", "Tell me something about {aa}.", "Describe {aa}.",
        "What can you tell me about {aa}?", "Tell me about {a}s." if animal in ("dog", "cat", "cow", "horse", "pig", "goat", "chicken", "duck", "lion", "tiger", "bear", "frog", "owl", "bee", "whale", "snake", "penguin")
        else "Say something about {aa}.", "Do you know what {aa} is?", "What kind of animal is {aa}?", "Give me a fact about {aa}."], a=animal, aa=lx.a(animal))
    if not r.held and r.chance(0.5):
        user = r.choice(MORE_ABOUT_ANIMALS).format(aa=lx.a(animal))
    legs = lx.LEGS.get(animal)
    facts = [f"{cap(lx.a(animal))} is an animal" + (f" with {legs or 'no'} legs." if legs is not None else ".")]
    facts += [f"It {noise}."] if noise else []
    return Turn(user, " ".join(facts + [f"A baby {animal} is called {lx.a(child)}."]), "", f"I collect what I know about {lx.a(animal)}.")


def sort_numbers(r: Draw) -> Turn:
    numbers = r.sample(range(1, 10 if r.chance(0.3) else 100), 3)
    down = r.chance(0.3)
    x, y, z = numbers
    user = r.say([
        "Sort {x}, {y} and {z}{d}.", "Sort these numbers{d}: {x}, {y}, {z}.", "Put {x}, {y} and {z} in order{d}.", "Sort the numbers {x}, {y}, {z}{d}.", "Order these numbers{d}: {x}, {y}, {z}",
        "Put these numbers in order{d}: {x}, {y}, {z}.", "Can you sort {x}, {y} and {z}{d}?", "Bring {x}, {y} and {z} in order{d}.", "Sort{d}: {x}, {y}, {z}", "Please sort {x}, {y}, {z}{d}.",
        "Could you put {x}, {y} and {z} in order{d}?"], x=x, y=y, z=z, d=" from large to small" if down else r.choice(["", "", " from small to large"]))
    return Turn(user, ", ".join(map(str, sorted(numbers, reverse=down))) + ".", "", f"I look for the {'largest' if down else 'smallest'} number first.")


# Skills and how often each is drawn: by how hard it is to learn, not by how often it is asked.
SKILLS = {
    opposite: 7, capital: 10, capital_reverse: 3, young: 5, sex: 5, sound: 2, home: 2, legs: 2, colour: 4, mix: 1, neighbour: 3,
    today: 1.5, calendar: 4, list_names: 0.7, add: 12, subtract: 12, multiply: 5, divide: 3, double: 2, compare: 3, parity: 1.5, count: 4,
    sequence: 4, next_number: 2, word_problem: 8, spell: 6, first_letter: 2, length: 3, sort: 7, alphabet: 1.5, shape: 0.8, plural: 1.5, about_animal: 2,
    sort_numbers: 2,
}


def draw(r: Draw) -> Turn:
    """A question of any skill."""
    (skill,) = r.choices(list(SKILLS), SKILLS.values())
    return skill(r)
