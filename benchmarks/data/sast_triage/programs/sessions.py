"""Session tokens, and the colours of a demo."""
import random
import string

COLOURS = ["red", "green", "blue"]
LETTERS = string.ascii_letters


def new_token():
    return "".join(random.choice(LETTERS) for _ in range(32))


def reset_code(user):
    user.code = random.randint(100000, 999999)
    return user.code


def demo_colour():
    return random.choice(COLOURS)


def dice():
    return random.randint(1, 6)
