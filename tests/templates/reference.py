"""How transformers renders chat templates: jinja2 with its settings. Nothing of transformers is
needed; differential_test.py compares with it where it is installed."""

import json
from datetime import datetime, timezone

import jinja2
import jinja2.ext
import jinja2.sandbox


class TemplateRaised(jinja2.TemplateError):
    """What raise_exception raises."""


class Generation(jinja2.ext.Extension):
    """{% generation %}: its text as it is."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        call = self.call_method("_render")
        return jinja2.nodes.CallBlock(call, [], [], body).set_lineno(line)

    def _render(self, caller):
        return caller()


class Namespace(jinja2.utils.Namespace):
    """namespace(), without names that begin with an underscore."""

    def __init__(*args, **kwargs):
        self, args = args[0], args[1:]
        attributes = dict(*args, **kwargs)
        for name in attributes:
            Namespace._check(name)
        jinja2.utils.Namespace.__init__(self, attributes)

    def __setitem__(self, name, value):
        Namespace._check(name)
        jinja2.utils.Namespace.__setitem__(self, name, value)

    @staticmethod
    def _check(name):
        if isinstance(name, str) and name.startswith("_"):
            raise jinja2.exceptions.SecurityError(f"no attribute {name!r} on a namespace")


class DictFunction:
    """dict(), without the attributes of the class."""

    def __call__(self, *args, **kwargs):
        return dict(*args, **kwargs)

    def fromkeys(self, *args, **kwargs):
        return dict.fromkeys(*args, **kwargs)


def raise_exception(message):
    raise TemplateRaised(message)


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


def compile_template(source, now):
    """The template; `now`: seconds since 1970 that strftime_now tells, in UTC."""
    moment = datetime.fromtimestamp(now, timezone.utc).replace(tzinfo=None)
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=[Generation, jinja2.ext.loopcontrols],
    )
    environment.filters["tojson"] = tojson
    # Ours: templates written for other engines use them, with json.loads in mind.
    environment.filters["fromjson"] = environment.filters["from_json"] = json.loads
    environment.globals["raise_exception"] = raise_exception
    environment.globals["strftime_now"] = lambda form: moment.strftime(form)
    environment.globals["dict"] = DictFunction()
    environment.globals["namespace"] = Namespace
    return environment.from_string(source)


def render(template, messages, kwargs, tokens):
    """The prompt as apply_chat_template gives it."""
    variables = {**tokens, "tools": None, "documents": None, "add_generation_prompt": False}
    return template.render(messages=messages, **{**variables, **kwargs})
