#!/usr/bin/env python3
"""The lint's own test of sizes: which lines a function has, in every language of the tree."""
import unittest

import sizes
from cpp_outline import Outline
from cpp_scan import Source
from planting import PlantedTest, in_namespace

# {n} lines of a C++ body, whose strings and comments try to end it.
BODY = '  F("}}");  // }}\n  G(R"x(\n}} ") }})x");  /* }} */\n'


def cpp_body(lines):
    return BODY.format() + "  H('}');\n" * (lines - 3)


class FilesTest(PlantedTest):

    def test_files(self):
        for path in ("base/a.h", "base/a.cc", "kernels/a.cu", "proto/a.proto", "tests/x/a_test.cc",
                     "tests/x/a.py", "cmake/a.cmake", "base/CMakeLists.txt"):
            self.assert_found(sizes, {path: "\n" * 401}, f"{path}:401: 401 lines, the limit is 400")
            self.assert_clean(sizes, {path: "\n" * 400})
        self.assert_found(sizes, {"tools/run": "#!/bin/sh\n" + "\n" * 400}, "401 lines")
        self.assert_clean(sizes, {"docs/A.md": "\n" * 999, "tests/golden/a.json": "\n" * 999,
                                  "tests/fuzz/corpus/data": "\n" * 999})


class FunctionsTest(PlantedTest):

    def heads(self, path, head, end="}\n", name=None, wrap=lambda text: text):
        """A function of 71 lines is found, one of 70 is not; the head is one line."""
        for lines, expected in ((71, [f"{name or 'F'}"]), (70, [])):
            text = wrap(head + "\n" + cpp_body(lines - 2) + end)
            problems = self.problems(sizes, {path: text})
            self.assertEqual(len(problems), len(expected), (head, problems))
            for part in expected:
                self.assertIn(f"{part} has 71 lines", problems[0], head)

    def test_cpp_functions(self):
        for head, name in (
                ("void F() {", "F"), ("int* F(int a, B<C> b = {}) const {", "F"),
                ("auto F(std::function<void(int)> f) -> std::vector<int> {", "F"),
                ("template <typename T, int N = (1 > 0)> requires (N > 1) T A<T>::F() noexcept {",
                 "A::F"),
                ("A::A(int x) : x_(x), y_{x}, z_([x] { return x; }) {", "A::A"),
                ("A::~A() {", "A::~A"), ("bool operator==(const A& a, const A& b) {", "operator=="),
                ("A::operator bool() const {", "bool"),
                ("void A::operator()(int x) {", "A::operator()"),
                ("TEST(SuiteTest, Name) {", "TEST(SuiteTest, Name)"),
                ("TEST_F(SuiteTest, Name) {", "TEST_F(SuiteTest, Name)"),
                ("TUTTI_KERNEL_OF(256) void F(TUTTI_PARAMETER Args args) {", "F"),
                ("struct B F(int a) {", "F"), ("[[nodiscard]] static int F() {", "F"),
                ("void F() ABSL_LOCKS_EXCLUDED(mutex_) {", "F"), ('extern "C" int F(void) {', "F")):
            self.heads("kernels/a.cu", head, name=name)

    def test_cpp_places(self):
        for path in ("base/a.h", "base/a.cc", "kernels/a.cu", "tests/x/a_test.cc"):
            self.heads(path, "void F() {", wrap=lambda text: in_namespace("tutti", text))
        self.heads("base/a.h", "  void F() override {", name="A::F",
                   wrap=lambda text: f"class A final : public B {{\n public:\n{text}}};\n")
        self.heads("base/a.cc", "const auto kF = [](int x) -> int {", name="lambda", end="};\n")
        self.heads("base/a.cc", "const bool kDone = Register([] {", name="lambda", end="});\n")

    def test_what_is_no_function(self):
        filler = cpp_body(80)
        for head, end in (("class A {", "};"), ("struct A : B {", "};"), ("namespace tutti {", "}"),
                          ("const Row kRows[] = {", "};"), ('extern "C" {', "}"),
                          ("static const std::map<int, int> kMap{", "};"),
                          ("enum class A {", "};")):
            text = head + "\n" + filler.replace("F(", "int f(").replace("G(", "int g(") + end + "\n"
            self.assertEqual(self.problems(sizes, {"base/a.cc": text}), [], head)

    def test_a_signature_of_several_lines(self):
        head = "template <typename T>\nvoid F(int a,\n       int b) {\n"
        self.assert_found(sizes, {"base/a.cc": head + cpp_body(67) + "}\n"},
                          "base/a.cc:1: F has 71")
        self.assert_clean(sizes, {"base/a.cc": head + cpp_body(66) + "}\n"})

    def test_both_branches_of_an_if(self):
        body = cpp_body(69)
        text = f"#ifdef A\nvoid F() {{\n{body}}}\n#else\nvoid G() {{\n{body}}}\n#endif\n"
        self.assert_found(sizes, {"base/a.cc": text}, "F has 71", "G has 71")

    def test_other_languages(self):
        bash = "#!/bin/bash\n"
        for path, before, head, line, end in (
                ("tools/a.py", "", "def f(a,\n      b):\n", "    pass\n", ""),
                ("tools/b.py", "class A:\n", "    async def f(self):\n", "        pass\n", ""),
                ("tools/py", "#!/usr/bin/env python3\n", "def f():\n", "    pass\n", ""),
                ("tools/run", bash, "f() {\n", "  echo '}'\n", "}\n"),
                ("tools/go", bash, "function f() {\n", "  cat <<< '}'\n", "}\n"),
                ("tools/in", bash, "f() (\n", "  { true; }\n", ")\n"),
                ("cmake/a.cmake", "", "function(f name)\n", "  set(a b)\n", "endfunction()\n"),
                ("cmake/CMakeLists.txt", "", "macro(f)\n", "  set(a b)\n", "endmacro()\n")):
            for lines, expected in ((71, ["f has 71"]), (70, [])):
                inside = lines - head.count("\n") - end.count("\n")
                self.assert_found(sizes, {path: before + head + line * inside + end}, *expected)


class OutlineTest(unittest.TestCase):

    def names(self, text):
        return [definition.name for definition in Outline(Source(text)).definitions]

    def test_digit_separators_and_characters(self):
        text = "constexpr int kA = 1'000'000;\nvoid F() { G('{', '\\'', 0x1'F); }\n"
        self.assertEqual(self.names(text), ["kA", "F"])

    def test_members_are_no_functions(self):
        text = "struct A {\n  B b{f_.get()}, c{f_.get()};\n  int d = 1;\n};\n"
        self.assertEqual(self.names(text), ["A"])

    def test_lambdas_and_local_classes_belong_to_their_function(self):
        self.assertEqual(self.names("void F() {\n  class L {\n    void M() {}\n  };\n"
                                    "  G([&](int x) mutable { return L{x}; });\n}\n"), ["F"])

    def test_continued_macros_are_no_code(self):
        self.assertEqual(self.names("#define M(x) \\\n  void x() { \\\n\nvoid F() {}\n"), ["F"])


if __name__ == "__main__":
    unittest.main()
