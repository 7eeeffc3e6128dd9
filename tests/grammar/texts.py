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


def reordered(value, schema, root):
    """The value with members in the order of the schema's properties, others behind them."""
    if isinstance(value, list):
        return [reordered(item, {"anyOf": _inside(schema, root, "items", "prefixItems")}, root)
                for item in value]
    if not isinstance(value, dict):
        return value
    places = {}
    for properties in _maps(schema, root, 0):
        for name, inner in properties.items():
            places.setdefault(name, []).append(inner)
    order = {name: i for i, name in enumerate(places)}
    names = sorted(value, key=lambda name: order.get(name, len(order)))
    others = _inside(schema, root, "additionalProperties", "patternProperties")
    return {name: reordered(value[name], {"anyOf": places.get(name, []) + others}, root) for name in names}


def _parts(schema, root, depth):
    """The schema and those that hold with it or instead of it."""
    if not isinstance(schema, dict) or depth > 6:
        return
    yield schema
    for keyword in ("allOf", "anyOf", "oneOf"):
        for part in schema.get(keyword) or []:
            yield from _parts(part, root, depth + 1)
    reference = schema.get("$ref")
    if isinstance(reference, str) and reference.startswith("#"):
        at = root
        for token in reference[1:].split("/")[1:]:
            token = token.replace("~1", "/").replace("~0", "~")
            at = at.get(token) if isinstance(at, dict) else None
        yield from _parts(at, root, depth + 1)


def _maps(schema, root, depth):
    for part in _parts(schema, root, depth):
        yield part.get("properties") if isinstance(part.get("properties"), dict) else {}
        yield {name: True for name in part.get("required") or [] if isinstance(name, str)}


def _inside(schema, root, *keywords):
    found = []
    for part in _parts(schema, root, 0):
        for keyword in keywords:
            inner = part.get(keyword)
            if keyword == "patternProperties" and isinstance(inner, dict):
                found += list(inner.values())
            elif isinstance(inner, list):
                found += inner
            elif isinstance(inner, dict):
                found.append(inner)
    return found
