#!/usr/bin/env python3
"""Writes man pages and a completion for bash from what the programs say of themselves with --help.

    tools/make_man.py --version-text 0.1.0 --out FOLDER PROGRAM…

Below FOLDER/client lie those of `tutti` and of each of its commands, below FOLDER/server those of the other programs, as they go into
a prefix's share/: man/man1, man/man8, bash-completion/completions. The same input gives the same bytes.
"""
import argparse
import gzip
import os
import re
import shutil
import socket
import subprocess
import tempfile

HEADING = re.compile(r"^(\S[^:]*):$")
VARIABLE = re.compile(r" ?\(Env:(\w+)\)")
# Where the formatter of --help begins the text of an option.
TEXT_COLUMN = 30


class Help:
    """What --help says: a purpose, groups of options, commands, and the text below."""

    def __init__(self, text):
        self.purpose, self.usage, self.footer = "", "", []
        self.groups, self.commands, self.required = {}, {}, []
        heading, entries = None, None
        lines = text.rstrip("\n").split("\n")
        for line, after in zip(lines, [*lines[1:], ""]):
            if line.startswith("Usage: "):
                self.usage = line[len("Usage: "):]
            elif self.footer or (heading and self.begins_footer(line)):
                self.footer.append(line)
            elif HEADING.match(line):
                heading = HEADING.match(line).group(1)
                entries = self.commands if heading == "Subcommands" else self.groups.setdefault(heading, {})
            elif heading and line.startswith("  "):
                self.add(entries, line, after)
            elif line and not self.purpose:
                self.purpose = line

    @staticmethod
    def begins_footer(line):
        """The first line that is no entry and no heading of entries."""
        return line == "Examples:" or (line[:1] not in ("", " ", "[") and not HEADING.match(line))

    @staticmethod
    def add(entries, line, after):
        """A line of a list: a name, a name with its text behind, or the text of the name above."""
        if line[2] == " ":
            name = list(entries)[-1]
            entries[name] = " ".join(filter(None, (entries[name], line.strip())))
        elif after.startswith(" " * TEXT_COLUMN):
            entries[line.strip()] = ""
        else:
            entries[line[:TEXT_COLUMN].strip()] = line[TEXT_COLUMN:].strip()

    def options(self):
        return {name: text for entries in self.groups.values() for name, text in entries.items()}

    def variables(self):
        return sorted({name for option in self.options() for name in VARIABLE.findall(option)})

    def flags(self):
        """Every spelling that begins with a dash."""
        return sorted({part for option in self.options() for part in re.findall(r"(?:^|,)(--?[a-zA-Z][\w-]*)", option.split(" ")[0])})


def escape(text):
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("…", "...")
    return "\\&" + text if text[:1] in (".", "'") else text


def page(name, section, version, said, others):
    """The page as roff."""
    purpose = said.purpose.rstrip(".")
    lines = [f'.TH "{name.upper()}" {section} "" "Tutti {version}" "Tutti"', ".SH NAME",
             f"{escape(name)} \\- {escape(purpose)}", ".SH SYNOPSIS", f"\\fB{escape(said.usage)}\\fR"]
    if said.commands:
        lines += [".SH COMMANDS"]
        for command, text in said.commands.items():
            lines += [".TP", f"\\fB{escape(command)}\\fR", escape(text)]
    for heading, entries in said.groups.items():
        lines += [".SH OPTIONS" if heading == "Options" else f'.SH "{escape(heading.upper())}"']
        for option, text in entries.items():
            shown = VARIABLE.sub("", option)
            lines += [".TP", f"\\fB{escape(shown)}\\fR", escape(text)]
            for variable in VARIABLE.findall(option):
                lines += [".br", f"Variable: {escape(variable)}"]
    if said.footer:
        lines += [".SH NOTES", ".nf", *[escape(line) for line in said.footer], ".fi"]
    lines += [".SH SEE ALSO", ",\n".join(f"\\fB{escape(other)}\\fR({place})" for other, place in others)]
    return "\n".join(lines) + "\n"


def completion(tree):
    """Of bash, for `tutti`: commands, then the options of the command."""
    cases = "\n".join(f"    {command}) options='{' '.join(said.flags())}' ;;" for command, said in tree.items() if command)
    return f"""# Made by tools/make_man.py.
_tutti() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} options
  case ${{COMP_WORDS[1]}} in
{cases}
    *) options='{' '.join([*filter(None, tree), *tree[""].flags()])}' ;;
  esac
  if [[ $word == -* || $COMP_CWORD == 1 ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$options" -- "$word")
  fi
}}
complete -o default -F _tutti tutti
"""


def ask(*command):
    """Its --help, without what depends on who asks and where: the folder of sockets, and the machine's name."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TUTTI_")}
    with tempfile.TemporaryDirectory() as folder:
        kept["XDG_RUNTIME_DIR"] = folder
        said = subprocess.run([*command, "--help"], capture_output=True, text=True, check=True, env=kept).stdout
    said = said.replace(folder, "$XDG_RUNTIME_DIR")
    return Help(re.sub(rf"TEXT={re.escape(socket.gethostname())}(?=\s)", "TEXT=HOSTNAME", said))


def write(path, text, packed=False):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    data = text.encode()
    with open(path + (".gz" if packed else ""), "wb") as file:
        file.write(gzip.compress(data, 9, mtime=0) if packed else data)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--version-text", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("programs", nargs="+")
    wanted = parser.parse_args()
    shutil.rmtree(wanted.out, ignore_errors=True)
    names = {os.path.basename(path): path for path in wanted.programs}
    sections = {name: 1 if name == "tutti" else 8 for name in names}
    for name, path in names.items():
        part = os.path.join(wanted.out, "client" if name == "tutti" else "server")
        others = [(other, sections[other]) for other in names if other != name]
        said = ask(path)
        if name == "tutti":
            tree = {"": said, **{command: ask(path, command) for command in said.commands}}
            for command in said.commands:
                text = page(f"{name}-{command}", 1, wanted.version_text, tree[command], [(name, 1)])
                write(os.path.join(part, "man", "man1", f"{name}-{command}.1"), text, True)
            write(os.path.join(part, "bash-completion", "completions", name), completion(tree))
            others = [(f"{name}-{command}", 1) for command in said.commands] + others
        text = page(name, sections[name], wanted.version_text, said, others)
        write(os.path.join(part, "man", f"man{sections[name]}", f"{name}.{sections[name]}"), text, True)


if __name__ == "__main__":
    main()
