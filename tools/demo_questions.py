"""The questions the demo model is trained on and examined with. Needs only the standard library.

Every question belongs to one problem ("12 + 30", "sort 3 5 9", ...), whatever its phrasing. A hash
of the problem decides whether it is held out, so no phrasing of a held-out problem is ever trained
on. For capitals and for "who are you" nothing can be answered without having been told: there the
phrasing is part of the problem, and what is held out is a known fact asked for in a way it was not
trained on.
"""

import dataclasses
import hashlib
import random

TASKS = ("add", "subtract", "sort", "spell", "capital", "identity")
# Of each task's problems, this share in 100 is held out.
HELD_OUT_PERCENT = {"add": 5, "subtract": 5, "sort": 5, "spell": 10, "capital": 15, "identity": 20}
LARGEST_NUMBER = 999
SORT_COUNTS = (3, 4, 5, 6)
SORT_LARGEST = 99
SPELL_LENGTHS = (3, 4, 5, 6, 7, 8)

ADD_PHRASINGS = (
    "What is {a} + {b}?",
    "What is {a} plus {b}?",
    "{a}+{b}=",
    "{a} + {b} =",
    "{a} + {b}",
    "Calculate {a} + {b}.",
    "How much is {a} + {b}?",
    "Add {a} and {b}.",
)
SUBTRACT_PHRASINGS = (
    "What is {a} - {b}?",
    "What is {a} minus {b}?",
    "{a}-{b}=",
    "{a} - {b} =",
    "{a} - {b}",
    "Calculate {a} - {b}.",
    "How much is {a} - {b}?",
    "Subtract {b} from {a}.",
)
SORT_PHRASINGS = (
    "Sort {spaced}.",
    "Sort {listed}.",
    "Sort these numbers: {listed}",
    "Put {spaced} in order.",
    "Put {listed} in order.",
)
SPELL_PHRASINGS = (
    "Spell {word} backwards.",
    "Spell the word {word} backwards.",
    "Reverse the word {word}.",
    "Write {word} backwards.",
    "What is {word} spelled backwards?",
)
CAPITAL_PHRASINGS = (
    "What is the capital of {country}?",
    "What is the capital city of {country}?",
    "Which city is the capital of {country}?",
    "Tell me the capital of {country}.",
    "Name the capital of {country}.",
    "Capital of {country}?",
)
CAPITAL_ANSWER = "The capital of {country} is {capital}."
GREETINGS = (
    "",
    "Hello! ",
    "Hi! ",
    "Hello, Tutti. ",
    "Good morning! ",
    "Please answer: ",
    "Hey! ",
    "Tutti, ",
)
IDENTITY_QUESTIONS = (
    "Who are you?",
    "What are you?",
    "What is your name?",
    "Tell me who you are.",
    "What are you called?",
    "Are you a language model?",
    "Who am I talking to?",
    "Can you tell me your name?",
)
IDENTITY_ANSWER = (
    "I am Tutti, a small language model. "
    "I run on several machines at once, and each of them holds a part of me."
)
SYSTEM_MESSAGES = (
    "You are a helpful assistant.",
    "You are Tutti.",
    "You are Tutti, a small language model.",
    "Answer in one line.",
)

CAPITALS = {
    country.replace("_", " "): city.replace("_", " ")
    for country, city in (
        pair.split(":")
        for pair in """
France:Paris Germany:Berlin Italy:Rome Spain:Madrid Portugal:Lisbon Austria:Vienna Switzerland:Bern
Belgium:Brussels Netherlands:Amsterdam Denmark:Copenhagen Norway:Oslo Sweden:Stockholm
Finland:Helsinki Iceland:Reykjavik Ireland:Dublin Poland:Warsaw Czechia:Prague Slovakia:Bratislava
Hungary:Budapest Romania:Bucharest Bulgaria:Sofia Greece:Athens Croatia:Zagreb Serbia:Belgrade
Slovenia:Ljubljana Albania:Tirana Ukraine:Kyiv Russia:Moscow Estonia:Tallinn Latvia:Riga
Lithuania:Vilnius Turkey:Ankara Egypt:Cairo Morocco:Rabat Tunisia:Tunis Algeria:Algiers
Kenya:Nairobi Ethiopia:Addis_Ababa Ghana:Accra Senegal:Dakar Nigeria:Abuja Uganda:Kampala
Japan:Tokyo China:Beijing India:New_Delhi Nepal:Kathmandu Thailand:Bangkok Vietnam:Hanoi
Indonesia:Jakarta Mongolia:Ulaanbaatar Iran:Tehran Iraq:Baghdad Canada:Ottawa Mexico:Mexico_City
Cuba:Havana Brazil:Brasilia Argentina:Buenos_Aires Chile:Santiago Peru:Lima Colombia:Bogota
Ecuador:Quito Uruguay:Montevideo Australia:Canberra New_Zealand:Wellington
""".split()
    )
}

WORDS = """
able above actor adapt after again agree ahead alarm album alert alive alone amber ample angel ankle
apple april apron arena arrow aside atlas attic autumn award awake bacon badge baker ball banana
band bank barn basin basket bath beach beacon bean bear beard beast bell belt bench berry bike bird
birth black blade blanket blaze blend block bloom blue board boat bone book boot border bottle bow
bowl box brain brand brave bread brick bridge bright bring broom brother brown brush bucket build
bulb bus butter button cabin cable cactus cake camel camp canal candle candy canvas cap captain car
card carpet carrot cart castle cat cave cedar center chain chair chalk change cheese cherry chest
chief child circle city clay clean clever climb clock cloud clover coach coal coast coat coffee coin
cold color comet copper coral corn cotton count country cousin cow crab cradle crane cream creek
crow crown crystal cup curtain daisy dance dawn day deer desert desk diamond dinner dog doll dolphin
donkey door dove dragon drama dream dress drink drum duck dust eagle ear early earth east echo edge
egg eight elbow empty engine evening exit eye fabric face falcon family farm father feather fence
fern field finger fire fish flag flame flower flute fog forest fork fox frame friend frog fruit
garden gate ghost giant gift ginger glass globe glove goat gold goose grain grape grass green ground
guitar hammer hand harbor harp hat hawk hay heart hedge helmet herb hero hill honey hood hook horn
horse hotel hour house ice igloo inch ink insect iron island ivory jacket jam jar jewel joke journey
judge juice jump jungle kettle key king kitchen kite kitten knee knife knot label ladder lake lamb
lamp land lantern laugh leaf leather lemon letter lid light lily lime lion lizard log lunch magic
magnet map maple marble market mask meadow melon metal milk mill minute mirror monkey month moon
moose morning moth mother motor mountain mouse mouth music nail name needle nest night north nose
note number nurse oak oasis oat ocean olive onion orange orbit otter oven owl oyster page paint
palace palm panda paper parade park parrot path peach peanut pear pearl pebble pen pencil pepper
piano picture pig pillow pilot pine planet plate plum pocket poem pond pony potato prince pumpkin
puppy purple puzzle queen quick quiet quilt rabbit radio rain raven ribbon rice ring river road
robin robot rocket roof room root rope rose ruby rug ruler saddle sail salad salt sand school sea
season seed shadow shark sheep shell ship shirt shoe shop silk silver sister skirt sky sleep smile
smoke snail snake snow soap sock song soup south spider spoon spring square stable star station
stone storm story stove straw stream street sugar summer sun swan table tail tea teacher temple tent
thread thunder ticket tiger toast tomato tool tooth tower town toy train travel treasure tree truck
tulip tunnel turtle umbrella uncle valley velvet village violin voice wagon walk wall walnut water
wave weather week well whale wheat wheel whistle white willow wind window wing winter wolf woman
wood wool word world yard year yellow young zebra zero
""".split()


@dataclasses.dataclass(frozen=True)
class Question:
    task: str
    problem: str
    text: str
    answer: str


def is_held_out(task, problem):
    digest = hashlib.sha256(f"{task}: {problem}".encode()).digest()
    return int.from_bytes(digest[:4], "little") % 100 < HELD_OUT_PERCENT[task]


def random_number(rng):
    """Three digits more often than not, one and two digits often enough."""
    digits = rng.choices((1, 2, 3), (1, 2, 5))[0]
    return rng.randrange(10**digits)


def add_question(rng, phrasing=None):
    a, b = random_number(rng), random_number(rng)
    if rng.random() < 0.2:
        b = nearly_complement(rng, a)
    phrasing = phrasing or rng.choice(ADD_PHRASINGS)
    low, high = sorted((a, b))
    return Question("add", f"{low} {high}", phrasing.format(a=a, b=b), str(a + b))


def nearly_complement(rng, a):
    """A number whose digits mostly bring a's to nine: carries then run through several places."""
    digits = [9 - int(digit) if rng.random() < 0.7 else rng.randrange(10) for digit in str(a)]
    return int("".join(map(str, digits)))


def subtract_question(rng, phrasing=None):
    a, b = random_number(rng), random_number(rng)
    if rng.random() < 0.2:
        # Equal leading digits: the sign and the number of digits hang on the last places.
        b = min(LARGEST_NUMBER, a - a % 10 + rng.randrange(10))
    phrasing = phrasing or rng.choice(SUBTRACT_PHRASINGS)
    return Question("subtract", f"{a} {b}", phrasing.format(a=a, b=b), str(a - b))


def sort_question(rng, phrasing=None):
    numbers = [rng.randrange(SORT_LARGEST + 1) for _ in range(rng.choice(SORT_COUNTS))]
    if rng.random() < 0.2:
        # The same tens: only the last digits decide.
        ten = rng.randrange(10)
        numbers = [10 * ten + number % 10 if rng.random() < 0.5 else number for number in numbers]
    phrasing = phrasing or rng.choice(SORT_PHRASINGS)
    spaced, listed = " ".join(map(str, numbers)), ", ".join(map(str, numbers))
    answer = " ".join(map(str, sorted(numbers)))
    return Question("sort", answer, phrasing.format(spaced=spaced, listed=listed), answer)


def prompt_words():
    """Lower-case words of the phrasings: the tokenizer has tokens for them and their beginnings."""
    texts = (
        ADD_PHRASINGS + SUBTRACT_PHRASINGS + SORT_PHRASINGS + SPELL_PHRASINGS + CAPITAL_PHRASINGS
    )
    texts += GREETINGS + IDENTITY_QUESTIONS + SYSTEM_MESSAGES + (IDENTITY_ANSWER, CAPITAL_ANSWER)
    words = {word.strip("?.,:!") for text in texts for word in text.split()}
    return sorted(word for word in words if word.isalpha() and word.islower())


def random_letters(rng, length):
    return "".join(rng.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(length))


def spell_question(rng, phrasing=None, words=WORDS, beginnings=tuple(prompt_words())):
    kind = rng.random()
    length = rng.choice(SPELL_LENGTHS)
    if kind < 0.4:
        word = rng.choice(words)
    elif kind < 0.6:
        beginning = rng.choice(beginnings)
        beginning = beginning[: rng.randint(1, min(len(beginning), length))]
        word = beginning + random_letters(rng, length - len(beginning))
    else:
        word = random_letters(rng, length)
    phrasing = phrasing or rng.choice(SPELL_PHRASINGS)
    return Question("spell", word, phrasing.format(word=word), word[::-1])


def capital_question(rng, phrasing=None):
    country = rng.choice(tuple(CAPITALS))
    phrasing = phrasing or rng.choice(CAPITAL_PHRASINGS)
    text = phrasing.format(country=country)
    return Question(
        "capital", text, text, CAPITAL_ANSWER.format(country=country, capital=CAPITALS[country])
    )


def identity_question(rng, phrasing=None):
    text = rng.choice(GREETINGS) + (phrasing or rng.choice(IDENTITY_QUESTIONS))
    return Question("identity", text, text, IDENTITY_ANSWER)


MAKERS = {
    "add": add_question,
    "subtract": subtract_question,
    "sort": sort_question,
    "spell": spell_question,
    "capital": capital_question,
    "identity": identity_question,
}


def make_question(rng, task, held_out):
    """A random question of the task from the held-out problems, or from the others."""
    while True:
        question = MAKERS[task](rng)
        if is_held_out(task, question.problem) == held_out:
            return question


def held_out_questions(task, count, seed):
    """Up to `count` different held-out questions, the same for the same seed."""
    rng = random.Random(f"{task} {seed}")
    questions = {}
    for _ in range(count * 20):
        question = make_question(rng, task, held_out=True)
        questions.setdefault(question.text, question)
        if len(questions) == count:
            break
    return list(questions.values())


def all_phrasings():
    """Texts with every word the tokenizer shall know: all but the words to be spelled."""
    names = [f" {country} {city}" for country, city in CAPITALS.items()]
    fixed = (
        *ADD_PHRASINGS,
        *SUBTRACT_PHRASINGS,
        *SORT_PHRASINGS,
        *SPELL_PHRASINGS,
        *CAPITAL_PHRASINGS,
    )
    return [
        *fixed,
        *GREETINGS,
        *IDENTITY_QUESTIONS,
        *SYSTEM_MESSAGES,
        IDENTITY_ANSWER,
        CAPITAL_ANSWER,
        *names,
    ]
