"""Texts of JSON values as the grammar engine writes them: no whitespace, integers without a fraction.

A value has several texts, because members may come in any order; a schema has one order.
"""
import itertools
import json

# Orders that are tried of one object, and texts of one value.
ORDERS_MAX = 120
TEXTS_MAX = 2000


def texts_of(value):
    """Texts of the value, some of all where there are many."""
    return list(itertools.islice(_texts(value), TEXTS_MAX))


def _texts(value):
    if isinstance(value, dict):
        for order in itertools.islice(itertools.permutations(value.items()), ORDERS_MAX):
            parts = [[json.dumps(key, ensure_ascii=False) + ":" + text for text in _few(item)]
                     for key, item in order]
            for chosen in itertools.product(*parts):
                yield "{" + ",".join(chosen) + "}"
    elif isinstance(value, list):
        for chosen in itertools.product(*[_few(item) for item in value]):
            yield "[" + ",".join(chosen) + "]"
    elif isinstance(value, float):
        if value.is_integer() and abs(value) < 1e30:
            yield str(int(value))
        yield json.dumps(value)
        yield format(value, "f")
    else:
        yield json.dumps(value, ensure_ascii=False)


def _few(value):
    return list(itertools.islice(_texts(value), ORDERS_MAX))
