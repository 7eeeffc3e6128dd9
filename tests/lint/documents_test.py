#!/usr/bin/env python3
"""The lint's own test: planted violations in documents, in the glossary and in commit titles."""
import unittest

import commit_titles
import documents
import glossary
from planting import PlantedTest


class DocumentsTest(PlantedTest):

    tree = {"coordinator/engine.h": "// Engine.\n", "tools/demo": "#!/bin/sh\n",
            "docs/decisions/0004-shards.md": "# A title, of two parts\n", "worker/b.cc": "",
            "docs/decisions/README.md": "[4](0004-shards.md)\n",
            "client/ask_command.cc": ""}

    def told(self, text, *expected, path="docs/A.md", files={}):
        self.assert_found(documents, self.tree | files | {path: text}, *expected)

    def test_paths_in_documents(self):
        for word in ("`coordinator/loop.h`", "`coordinator/loop`", "coordinator/loop.cc",
                     "    tools/dome --fast", "`docs/decisions/0005-*`", "`docs/decisions/0005`",
                     "`coordinator/{engine,loop}.h`", "`loop.h`", "`worker/<name>.h`",
                     "`elsewhere/engine.h`"):
            self.told(f"\nSee {word}.\n", "docs/A.md:2: names ")
        for word in ("`coordinator/engine.h`", "`coordinator/engine`", "`coordinator/`",
                     "`engine.h`", "    tools/demo --fast", "`docs/decisions/0004-*`",
                     "`docs/decisions/0004`",
                     "`{coordinator/engine,worker/b}.*`", "`<folder>/engine.h`", "`build/x/y.h`",
                     "`X_command.cc` and `and/or`", "https://example.com/coordinator/loop.h",
                     "`/usr/include/loop.h`", "`decisions/0004-shards.md`"):
            self.told(f"\nSee {word}.\n")

    def test_names_in_an_item_of_a_source(self):
        files = {"worker/b.h": "void Free(int block);\n"}
        self.told("1. `worker/b.h` frees (`Free`),\n   and so on (`Frees`).\n", "docs/A.md:2: worker/b.h has no Frees",
                  files=files)
        self.told("1. `worker/b.h` frees (`Free`).\n\nThen (`Frees`).\n2. Others (`Frees`).\n", files=files)

    def test_members_of_no_source(self):
        files = {"worker/b.h": "class A {\n  void Free(int block);\n};\n"}
        for text in ("See `A::Frees`.", "It `B::Free()` it."):
            self.told(text + "\n", "docs/A.md:1: no source has ", files=files)
        self.told("See `A::Free`, `A::Free()` and `a::b c`.\n", files=files)

    def test_names_beside_a_source(self):
        files = {"worker/b.h": "class A {\n  void Free(int block);\n};\n"}
        for name in ("A::Frees", "B::Free", "free", "block_"):
            for text in (f"| Where? | `worker/b.h` | `{name}` |", f"See `worker/b.h`: `{name}`."):
                self.told(f"\n{text}\n", f"docs/A.md:2: worker/b.h has no {name}", files=files)
        for text in ("| Where? | `worker/b.h` | `A::Free` |", "See `worker/b.h`: `Free`, `Other`.",
                     "`worker/b.h` and `Other`", "| `docs/decisions/` | `Other` |"):
            self.told(f"\n{text}\n", files=files)

    def test_links(self):
        self.told("[a](decisions/0005.md)", "the link's target decisions/0005.md does not exist")
        self.told("[a](decisions/0004-shards.md#nothing)", "does not exist")
        self.told("[a]: ../tools/dome", "does not exist")
        self.told("[a](decisions/0004-shards.md#a-title-of-two-parts) [b](https://x.org/y.md)\n"
                  "[c](#here)\n\n## Here\n\n[d]: ../tools/demo\n")

    def test_decisions(self):
        self.told("# Five\n", "docs/decisions/README.md has no link",
                  path="docs/decisions/0005-a.md")
        self.told("# Four\n", "number 0004 is another", path="docs/decisions/0004-z.md", files={
            "docs/decisions/README.md": "[4](0004-shards.md), [4](0004-z.md)\n"})

    def test_decisions_that_were_replaced(self):
        new = "# 5\n\nReplaces the part of [decision 4](0004-shards.md) on rows.\n"
        index = {"docs/decisions/README.md": "[4](0004-shards.md), [5](0005-a.md)\n"}
        for top, expected in (("", ["0004-shards.md does not say at its top"]),
                              ("In part replaced by [5](0005-b.md).\n", ["0004-shards.md does not", "0005-b.md"]),
                              ("In part replaced by [decision 5](0005-a.md): rows.\n", [])):
            self.told(new, *expected, path="docs/decisions/0005-a.md", files=index | {
                "docs/decisions/0004-shards.md": f"# A title, of two parts\n\n{top}"})

    def test_comments(self):
        for path, text in (("worker/a.h", "// See {}.\n"), ("worker/a.cc", "int x;  /* {} */\n"),
                           ("tools/a.py", 'def f():\n    """See {}."""\n'),
                           ("tools/b.py", "# {}\n"),
                           ("tools/run", "#!/bin/bash\necho a  # {}\n"),
                           ("worker/CMakeLists.txt", "# {}\n"), ("proto/a.proto", "// {}\n")):
            self.told(text.format("coordinator/loop.h"), "names coordinator/loop.h", path=path)
            self.told(text.format("docs/decisions/0009"), "names docs/decisions/0009", path=path)
            self.told(text.format("coordinator/engine.h, tools/demo and 3/4"), path=path)
        self.told('char x[] = "coordinator/loop.h";\n', path="worker/a.cc")


class GlossaryTest(PlantedTest):

    entries = ("# Words\n\n**KV cache** (not: key cache): memory.\n\n**lease**: a time.\n\n"
               "**stale frame** (not: late frame, old frame): one of an epoch\nthat is over.\n")

    def told(self, text, *expected, path="docs/A.md"):
        self.assert_found(glossary, {"docs/GLOSSARY.md": self.entries, path: text}, *expected)

    def test_no_glossary(self):
        self.assert_found(glossary, {"docs/A.md": "Text."}, "there is no glossary")

    def test_entries(self):
        for added, expected in (("**lease**: again.\n", "lease is defined twice, see line 5"),
                                ("**block**: late.\n", "block stands out of order"),
                                ("**tree** (not: lease): x.\n", "lease is a term of its own"),
                                ("**tree** is a tree.\n", "an entry is `**term**")):
            self.assert_found(glossary, {"docs/GLOSSARY.md": self.entries + "\n" + added}, expected)
        self.assert_clean(glossary, {"docs/GLOSSARY.md": self.entries})

    def test_second_spellings(self):
        for word in ("KV-cache", "kv cache", "KVcache", "KV caches and Kv Caches", "key cache",
                     "key-cache", "Late frame", "old frames", "stale-frame"):
            self.told(f"All the {word} here.\n", 'docs/A.md:1: "')
        self.told("The KV cache, KV caches; Stale frames. A `kv-cache`, kv_cache, KvCache, "
                  "StaleFrame, x/kv-cache, [a](old-frame.md), --late-frame-ms.\n")
        self.told("```\nkv cache\n```\n")

    def test_comments_and_messages(self):
        for path, text in (("base/a.h", "// The kv cache.\n"), ("base/a.cc", 'F("no kv cache");\n'),
                           ("tools/a.py", '"""The kv cache."""\n'),
                           ("tools/b", "#!/bin/sh\n# kv cache\n"),
                           ("proto/a.proto", "// kv cache\n"),
                           ("a/CMakeLists.txt", "# kv cache\n")):
            self.told(text, '"kv cache": the glossary says KV cache', path=path)
            self.told(text.replace("kv", "KV"), path=path)


class CommitTitlesTest(unittest.TestCase):

    def test_titles(self):
        folders = {"worker", "worker/links", "docs"}
        for title in ("worker: add a room", "worker/links, docs: name the peers", "root: pass CUDA",
                      "all: give each folder its namespace", "docs: " + "x" * 66):
            self.assertEqual(commit_titles.wrong(title, folders), [])
        for title in ("Add a room", "worker: Add a room", "worker: added a room",
                      "wroker: add a room", "worker: adding a room",
                      "worker: adds a room", "worker: add a room.",
                      "worker:add a room", "docs: " + "x" * 67):
            self.assertEqual(len(commit_titles.wrong(title, folders)), 1, title)


if __name__ == "__main__":
    unittest.main()
