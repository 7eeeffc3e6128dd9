#!/usr/bin/env python3
"""The lint's own test: planted violations of the rules on code, and clean variants beside them."""
import unittest

import class_files
import definitions
import form
import include_graph
import layers
import locks
import namespaces
import prose
import test_files
from planting import PlantedTest, in_namespace


def including(*headers):
    return "// A file.\n" + "".join(f'#include "{header}"\n' for header in headers)


class LayersTest(PlantedTest):

    def test_an_arrow_upward(self):
        self.assert_found(layers, {"base/a.cc": including("model/b.h")},
                          "base/a.cc:2: base may not include model/b.h")
        self.assert_clean(layers, {"model/b.cc": including("base/a.h", "model/c.h", "text/t.h")})

    def test_an_arrow_sideways(self):
        self.assert_found(layers, {"worker/a.cc": including("coordinator/b.h")},
                          "worker may not include coordinator/b.h")
        self.assert_found(layers, {"client/a.cc": including("worker/b.h")},
                          "client may not include worker/b.h")
        self.assert_clean(layers, {"client/a.cc": including("placement/b.h")})

    def test_messages_in_kernels(self):
        self.assert_found(layers, {"kernels/a.h": including("tutti/peer/v1/peer.pb.h")},
                          "kernels may not include tutti/peer/v1/peer.pb.h")
        self.assert_clean(layers, {"transport/a.h": including("tutti/peer/v1/peer.pb.h")})

    def test_a_protocol_that_knows_another(self):
        for path in ("gateway/kserve/a.cc", "gateway/a.cc", "gateway/grpc/grpc_port.cc"):
            self.assert_found(layers, {path: including("gateway/openai/b.h")},
                              "only gateway/openai and the lists of protocols may include")
        self.assert_clean(layers, {"gateway/openai/a.cc": including("gateway/openai/b.h"),
                                   "gateway/openai/service/a.cc": including("gateway/openai/b.h"),
                                   "gateway/service/main.cc": including("gateway/openai/b.h"),
                                   "gateway/kserve/a.cc": including("gateway/field_reader.h")})

    def test_a_product_that_includes_its_tests(self):
        self.assert_found(layers, {"worker/a.cc": including("tests/support/b.h")},
                          "worker may not include tests/support/b.h")
        self.assert_clean(layers, {"worker/a_test.cc": including("tests/support/b.h"),
                                   "tests/x/a.cc": including("worker/b.h", "coordinator/c.h")})

    def test_a_core_that_sees_grpc(self):
        for header in ("grpcpp/grpcpp.h", "grpc/slice.h", "tutti/peer/v1/peer.grpc.pb.h"):
            for path in ("coordinator/a.cc", "transport/a.h", "worker/links/a.cc"):
                self.assert_found(layers, {path: including(header)}, "a core may not see gRPC")
            self.assert_clean(layers, {"coordinator/service/a.cc": including(header),
                                       "transport/grpc/a.h": including(header),
                                       "client/a.cc": including(header),
                                       "transport/a_test.cc": including(header)})

    def test_a_core_that_sees_grpc_through_a_shell(self):
        self.assert_found(layers, {"coordinator/a.cc": including("coordinator/service/b.h")},
                          "a core may not include a shell")
        self.assert_found(layers, {"worker/links/a.h": including("transport/grpc/b.h")},
                          "a core may not include a shell")
        self.assert_clean(layers, {"coordinator/service/a.cc": including("transport/grpc/b.h")})

    def test_a_table_that_says_otherwise(self):
        rows = [f"| `{folder}` | what it is | {', '.join(below)} |"
                for folder, below in layers.LAYERS.items()]
        told = {"docs/ARCHITECTURE.md": "\n".join(rows) + "\n"}
        self.assert_clean(layers, told)
        row = "| `placement` | what it is |"
        for changed in (told["docs/ARCHITECTURE.md"].replace(f"{row} base, kernels,", f"{row}"),
                        told["docs/ARCHITECTURE.md"].replace("`placement`", "placement")):
            self.assert_found(layers, {"docs/ARCHITECTURE.md": changed},
                              "placement may include base, kernels, model")


    def test_a_readme_that_says_otherwise(self):
        for text in ("May include: base, `kernels` (numbers), text, model, abseil.\n",
                     "May include `base`, kernels, text and model; more text.\n",
                     "# quant\n"):
            self.assert_clean(layers, {"quant/README.md": text})
        self.assert_found(layers, {"quant/README.md": "# quant\n\nMay include: base, model.\n"},
                          "quant/README.md:3: quant may include base, kernels, text, model")


class IncludeGraphTest(PlantedTest):

    def test_headers_in_a_circle(self):
        self.assert_found(include_graph, {"base/a.h": including("base/b.h"),
                                          "base/b.h": including("base/a.h")},
                          "base/a.h:2: a circle of includes: base/a -> base/b; base/b -> base/a")
        self.assert_clean(include_graph, {"base/a.h": including("base/b.h"), "base/b.h": ""})

    def test_a_circle_through_sources(self):
        circle = {"base/a.h": including("base/b.h"), "base/b.h": "", "base/c.h": "",
                  "base/b.cc": including("base/b.h", "base/c.h"),
                  "base/c.cu": including("base/a.h")}
        self.assert_found(include_graph, circle, "base/a -> base/b; base/b -> base/c; base/c")
        self.assert_clean(include_graph, circle | {"base/c.cu": including("base/c.h")})

    def test_two_circles(self):
        self.assert_found(include_graph, {"base/a.h": including("base/b.h"),
                                          "base/b.h": including("base/a.h"),
                                          "model/c.h": including("base/a.h", "model/d.h"),
                                          "model/d.h": including("model/c.h")},
                          "base/a ->", "model/c ->")


class TestFilesTest(PlantedTest):

    def test_tests_under_another_name(self):
        for header in ("gtest/gtest.h", "gmock/gmock.h"):
            for path in ("worker/a.cc", "worker/testing_a.h", "worker/a_tests.cc", "tools/a.cc",
                         "worker/testing/a.h"):
                self.assert_found(test_files, {path: including(header)},
                                  f"{path}:2: includes {header}")
            for path in ("worker/a_test.cc", "worker/a_testing.h", "worker/links/a_fuzz.cc",
                         "tests/support/a.h"):
                self.assert_clean(test_files, {path: including(header)})

    def test_a_product_that_includes_a_helper_of_tests(self):
        self.assert_found(test_files, {"worker/a.cc": including("worker/b_testing.h")},
                          "worker/a.cc:2: the product may not include worker/b_testing.h")
        self.assert_clean(test_files, {"worker/a_test.cc": including("worker/b_testing.h"),
                                       "bench/a.cc": including("worker/b_testing.h")})


class ClassFilesTest(PlantedTest):

    HEADER = "// A thing.\n{}namespace tutti::worker {{\n\nclass A {{\n  void F();\n}};\n\n}}\n"
    ONE = in_namespace("tutti::worker", "void A::F() {}")
    TWO = in_namespace("tutti::worker", "void A::G() {}")

    def files(self, comment, **sources):
        return {"worker/a.h": self.HEADER.format(comment)} | {f"worker/{name}.cc": text
                                                              for name, text in sources.items()}

    def test_a_class_of_two_sources(self):
        self.assert_clean(class_files, self.files("", a=self.ONE))
        self.assert_found(class_files, self.files("", a=self.ONE, b=self.TWO),
                          'worker/a.h:4: class A: 2 sources, and its header does not say why: "in two files')
        said = "// Its functions are in two files,\n// because it is long: a.cc and b.cc.\n"
        self.assert_clean(class_files, self.files(said, a=self.ONE, b=self.TWO))
        self.assert_found(class_files, self.files(said.replace(" and b.cc", ""), a=self.ONE, b=self.TWO),
                          "its header does not name worker/b.cc")
        self.assert_found(class_files, self.files(said.replace("because", "as"), a=self.ONE, b=self.TWO),
                          "does not say why")
        third = in_namespace("tutti::worker", "void A::Inner::H() {}")
        self.assert_found(class_files, self.files(said, a=self.ONE, b=self.TWO, c=third), "3 sources")

    def test_a_class_of_no_header(self):
        self.assert_found(class_files, {"worker/a.cc": self.ONE, "worker/b.cc": self.TWO},
                          "worker/b.cc:4: another source of class A")
        other = in_namespace("tutti::model", "void A::G() {}")
        self.assert_clean(class_files, {"worker/a.cc": self.ONE, "model/b.cc": other})


class LocksTest(PlantedTest):

    def test_threads_that_throw(self):
        for started in ("auto t = std::thread([] {});", "std::thread t([] {});", "std::jthread t{Run};",
                        "std::thread(&A::Run, this).detach();"):
            self.assert_found(locks, {"worker/a.cc": started + "\n"}, "take base/thread.h")
        for fine in ("std::thread t;", "void F(std::thread t);", "std::vector<std::thread> t;",
                     "auto t = StartThread(\"a\", [] {});"):
            self.assert_clean(locks, {"worker/a.cc": fine + "\n"})
        self.assert_clean(locks, {"worker/a_test.cc": "std::thread t([] {});\n", "tools/a.cc": "std::thread t([] {});\n"})

    def test_locks_that_no_analysis_sees(self):
        for name in ("mutex", "recursive_mutex", "shared_timed_mutex", "condition_variable_any",
                     "lock_guard<std::once_flag>", "unique_lock<Mutex>", "scoped_lock<Mutex>"):
            for path in ("worker/a.h", "tests/x/a_test.cc", "kernels/a.cu"):
                self.assert_found(locks, {path: f"#pragma once\nstd::{name} a;\n"},
                                  f"{path}:2: std::{name.split('<')[0]}: take base/mutex.h")
        self.assert_clean(locks, {"base/mutex.h": "std::mutex a;\n",
                                  "worker/a.h": "// Not std::mutex.\n#include <mutex>\n"
                                                "std::once_flag a; Mutex b; MutexLock c(&b);\n"})


class NamespacesTest(PlantedTest):

    def test_the_namespace_of_another_folder(self):
        body = "struct A {};"
        for folder, name in (("worker", "tutti"), ("worker", "tutti::model"),
                             ("base", "tutti::base"), ("worker/links", "tutti::worker::sampling"),
                             ("kernels", "kernels"),
                             ("kernels/cpu", "tutti::cpu"), ("client", "tutti::worker::client")):
            self.assert_found(namespaces, {f"{folder}/a.h": in_namespace(name, body)},
                              f":2: namespace {name} in {folder}, which is ")
        for folder, name in (("base", "tutti"), ("worker", "tutti::worker"),
                             ("worker/links", "tutti::worker"),
                             ("text/jinja", "tutti::text::jinja"),
                             ("worker/links", "tutti::worker::links"),
                             ("kernels/cuda/emulated", "tutti::kernels::cuda::emulated"),
                             ("kernels/cuda/emulated", "tutti::kernels::emulated"),
                             ("base", "tutti::internal"), ("worker", "tutti::worker::internal"),
                             ("tests/support", "tutti"), ("tools", "tutti::model")):
            self.assert_clean(namespaces, {f"{folder}/a.h": in_namespace(name, body)})

    def test_anonymous_and_nested_ones(self):
        inner = in_namespace("worker", "namespace {\nint F() { return 1; }\n}")
        self.assert_clean(namespaces, {"worker/a.cc": f"namespace tutti {{\n{inner}\n}}\n"})
        self.assert_found(namespaces, {"model/a.cc": f"namespace tutti {{\n{inner}\n}}\n"},
                          "namespace tutti::worker in model, which is tutti::model")
        self.assert_found(namespaces, {"worker/a.cc": "namespace {\nstruct A {};\n}\n"},
                          "namespace (anonymous) in worker")

    def test_no_namespace(self):
        self.assert_found(namespaces, {"worker/a.cc": "int F() { return 1; }\n"},
                          "worker/a.cc:1: function F is in no namespace")
        self.assert_clean(namespaces, {"worker/main.cc": "int main() { return 0; }\n",
                                       "worker/a.cc": 'extern "C" int Entry() { return 0; }\n',
                                       "base/a.h": "template <>\nstruct std::hash<int> {};\n"})

    def test_types_declared_ahead(self):
        ahead = in_namespace("tutti::model", "class A;\ntemplate <typename T>\nstruct B;")
        self.assert_clean(namespaces, {"worker/a.h": ahead})
        more = ahead.replace("class A;", "class A;\nint F();")
        self.assert_found(namespaces, {"worker/a.h": more},
                          "namespace tutti::model in worker")

    def test_braces_that_do_not_pair_up(self):
        self.assert_found(namespaces, {"base/a.cc": in_namespace("tutti", "void F() {")},
                          "braces do not pair up")


class DefinitionsTest(PlantedTest):

    def found(self, one, other, *expected, name="tutti"):
        files = {"base/a.h": in_namespace(name, one), "base/b.cc": in_namespace(name, other)}
        self.assert_found(definitions, files, *expected)

    def test_a_type_defined_twice(self):
        self.found("struct Worker {\n  int a;\n};", "class Worker final : public Base {};",
                   "base/a.h:4: type tutti::Worker is also defined in base/b.cc:4 (type)")
        self.found("struct Worker {};", "using Worker = int;", "(alias)")
        self.found("enum class Kind { kA };", "template <typename T>\nstruct Kind {};",
                   "tutti::Kind")
        self.found("struct Worker;\nstruct Other {};", "struct Worker {};")
        self.found("struct A { struct Shard {}; };", "struct Shard {};")
        self.found("template <>\nstruct A<int> {};", "template <>\nstruct A<char> {};")

    def test_a_constant_defined_twice(self):
        self.found("inline constexpr int kMax = 4;", "constexpr int64_t kMax{5};",
                   "constant tutti::kMax")
        self.found("inline constexpr const char* kNames[] = {\"a\", \"b\"};",
                   "const std::vector<int> kNames = {1};", "constant tutti::kNames")
        self.found("extern int count;", "int count = 0;")

    def test_a_function_defined_twice(self):
        self.found("inline int F(int a, const T& b) { return a; }", "int F(int x, const T& y) {}",
                   "function tutti::F")
        self.found("int F(int a);", "int F(int a) { return a; }")
        self.found("inline int F(int a) { return a; }", "int F(int64_t a) { return 1; }")
        self.found("inline int F() { return 1; }", "static int F() { return 2; }")
        self.found("inline A::A(int x) : x_(x), y_{x} {}", "A::A(int x) : x_{x} {}",
                   "function tutti::A::A")

    def test_other_namespaces(self):
        self.found("struct A {};", "namespace {\nstruct A {};\n}")
        self.assert_clean(definitions, {"base/a.h": in_namespace("tutti", "struct A {};"),
                                        "base/b.h": in_namespace("tutti::b", "struct A {};")})
        self.assert_found(definitions, {
            "base/a.h": in_namespace("tutti::b", "struct A {};"),
            "base/b.h": "namespace tutti {\nnamespace b {\nstruct A {};\n}\n}\n"}, "tutti::b::A")

    def test_alternatives_of_one_if(self):
        real = ('#ifdef GPU\nnamespace tutti {\ninline int Lane() { return 1; }\n}\n'
                '#else\n#include "base/b.h"\n#endif\n')
        other = in_namespace("tutti", "inline int Lane() { return 2; }")
        self.assert_clean(definitions, {"base/a.h": real, "base/b.h": other})
        self.assert_found(definitions, {"base/a.h": real.replace("#else", "#endif\n#if 1"),
                                        "base/b.h": other}, "tutti::Lane")


class FormTest(PlantedTest):

    def test_long_lines(self):
        for name in ("a.h", "a.cc", "a.cu", "a.proto"):
            self.assert_found(form, {f"tests/{name}": "//" + " x" * 50 + "\n"}, "102 columns")
            self.assert_clean(form, {f"tests/{name}": "//" + " x" * 49 + "\n"})

    def test_a_header_without_a_beginning(self):
        self.assert_found(form, {"tests/a.h": "#pragma once\n"},
                          "tests/a.h:1: a header begins with")
        self.assert_clean(form, {"tests/a.h": "// What it is for.\n#pragma once\n"})

    def test_readmes(self):
        self.assert_found(form, {"worker/a.cc": ""}, "no README.md")
        self.assert_clean(form, {"worker/a.cc": "", "worker/README.md": "x x\n" * 400})
        self.assert_found(form, {"worker/README.md": "x\n" * 801}, "801 words, the limit is 800")
        self.assert_found(form, {"worker/README.md": "x\n", "worker/links/README.md": "x " * 801},
                          "worker/links/README.md:1")

    def test_unfinished_work(self):
        for mark in ("TO" "DO: more", "fix" "me", "not imple" "mented"):
            self.assert_found(form, {"tests/a.cc": f"// {mark}\n"}, "a marker of unfinished work")
        self.assert_clean(form, {"tests/a.cc": "// todos are kept elsewhere\n"})

    def test_a_conflict_of_a_merge_in_any_file(self):
        for mark in ("<" * 7 + " HEAD", ">" * 7 + " branch"):
            for name in ("tests/a.cc", "tests/CMakeLists.txt", "docs/a.md"):
                self.assert_found(form, {name: f"x\n{mark}\n"}, "a conflict of a merge")
        self.assert_clean(form, {"docs/a.md": "<<<<<< six\n"})


class ProseTest(PlantedTest):

    def told(self, text, *expected, path="docs/A.md"):
        self.assert_found(prose, {path: text}, *expected)

    def test_long_lines(self):
        for path, form_ in (("docs/A.md", "{}\n"), ("docs/A.md", "```\n{}\n```\n"),
                            ("worker/CMakeLists.txt", "set({})\n"), ("cmake/a.cmake", "# {}\n")):
            self.told(form_.format("x " * 71), " characters, the limit is 140", path=path)
            self.told(form_.format("x " * 60), path=path)
        self.told("| " + "x " * 150 + "|\n")
        self.told("| " + "x " * 160 + "|\n", "323 characters, the limit is 320")
        self.told("https://" + "x" * 150 + "\n")

    def test_two_sentences_on_a_line(self):
        for text in ("One ends. Another begins.\n", "- One ends.\n  Two. Three\n",
                     "Is it one? No.\n", "(One ends.) Another\n", "One `a. b`. gRPC is two.\n",
                     "It says \"no.\" Another\n", "Text\n\n1. **It ends:** one. Two.\n"):
            self.told(text, "a sentence ends within the line")
        for text in ("One, e.g. this one.\nAnother of 2.5 and `a. B`.\n", "**Why.** It is so.\n",
                     "*Price.* It is so.\n- Is it? asks one.\n", "| One. Two. |\n", "# A. B\n",
                     "```\nOne. Two.\n```\n", "See [one. Two](a.md) … and so on\n",
                     "Text:\n\n    One. Two.\n"):
            self.told(text)

    def test_a_sentence_on_two_lines(self):
        self.told("One that goes\non.\n", "docs/A.md:1: this sentence would fit on one line")
        self.told("One.\n- Two that\n  goes on.\n", "docs/A.md:2: this sentence")
        self.told("x " * 60 + "\n" + "x " * 11 + "x.\nAnd.\n")
        self.told("One\n\ntwo\n- three\n- four\n")

    def test_comments_of_cmake(self):
        for text, expected in (("# One. Two.\n", "a sentence ends within"),
                               ("set(A)\n  # One\n  # goes on.\n", "a.cmake:2: this sentence")):
            self.told(text, expected, path="cmake/a.cmake")
        self.told("# One.\n#\n#   f(A)  one. Two\n#   goes on\n# Two.\nset(A)  # One. Two.\n",
                  path="cmake/a.cmake")

    def test_text_right_below_a_table(self):
        self.told("| a |\n|---|\n| b |\nText.\n", "docs/A.md:4: text right below a table")
        self.told("| a |\n|---|\n| b |\n\nText.\n\n| a |\n")

    def test_mending(self):
        for text, clean in (("One ends. Another\nbegins.\n", "One ends.\nAnother begins.\n"),
                            ("1. One. Two\n   goes on.\n", "1. One.\n   Two goes on.\n"),
                            ("x " * 60 + "x; " + "y " * 40, None), ("x " * 66 + "- " * 9, None)):
            mended = prose.mended("docs/A.md", text)
            self.assertEqual(mended.split(), text.split())
            self.assertIn(mended, (clean, mended) if clean is None else (clean,))
            self.told(mended)


if __name__ == "__main__":
    unittest.main()
