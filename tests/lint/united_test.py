#!/usr/bin/env python3
"""Planted names that two sources of one CMake target have, each for itself; and clean variants beside them."""
import unittest

import united
from planting import PlantedTest, in_namespace


def own(body, name="tutti::worker"):
    return in_namespace(name, f"namespace {{\n\n{body}\n\n}}  // namespace")


FUNCTION = own("int Half(int x) { return x / 2; }")
CONSTANT = own("constexpr int kMost = 4;")


class UnitedTest(PlantedTest):

    def of(self, cmake, *expected, **sources):
        files = {"worker/CMakeLists.txt": cmake} | {f"worker/{name}.cc": text for name, text in sources.items()}
        self.assert_found(united, files, *expected)

    def library(self, one, other, *expected):
        self.of("tutti_library(worker SOURCES a.cc b.cc DEPS tutti_base)\n", *expected, a=one, b=other)

    def test_names_of_two_sources(self):
        self.library(FUNCTION, FUNCTION, "worker/a.cc:6: function Half is also in worker/b.cc:6, seen by the same target")
        self.library(CONSTANT, CONSTANT, "constant kMost is also in worker/b.cc:6")
        self.library(own("struct Row {};"), own("class Row {};"), "type Row is also in worker/b.cc:6")
        self.library(own("TEST(A, B) {}"), own("TEST(A, B) {}"), "function TEST")
        self.library(FUNCTION, in_namespace("tutti::worker", "static int Half(int y) { return y; }"), "function Half")

    def test_names_that_do_not_meet(self):
        self.library(FUNCTION, CONSTANT)
        self.library(FUNCTION, own("int Half(double x) { return x / 2; }"))
        self.library(FUNCTION, FUNCTION.replace("tutti::worker", "tutti::worker::links"))
        self.library(own("TEST(A, B) {}"), own("TEST(A, C) {}"))
        self.library(own("struct A { struct Row {}; };"), own("struct B { struct Row {}; };"))

    def test_aliases(self):
        self.library(own("using Json = nlohmann::json;"), own("using Json = nlohmann::json;"))
        self.library(own("using Json = nlohmann::json;"), own("using Json = nlohmann::ordered_json;"), "alias Json")

    def test_a_name_of_the_namespace_around(self):
        shared = in_namespace("tutti::worker", "int Half(int x) { return x; }")
        self.library(FUNCTION, shared, "worker/a.cc:6: function Half is also in worker/b.cc:4")
        for other, expected in (("worker/c.h", ["function Half is also in worker/c.h:4"]), ("worker/d.h", [])):
            self.assert_found(united, {
                "worker/CMakeLists.txt": "tutti_library(worker SOURCES a.cc b.cc)\n", "worker/a.cc": FUNCTION,
                "worker/b.cc": '// A file.\n#include "worker/c.h"\n', other: shared}, *expected)

    def test_the_forms_of_targets(self):
        both = {"a": FUNCTION, "b": FUNCTION}
        for cmake in ("tutti_test(a_test TIMEOUT 9 SOURCES a.cc b.cc DEPS tutti_x)",
                      "tutti_testing_library(x SOURCES a.cc  # one\n  b.cc)",
                      "if(X)\n  tutti_binary(x SHELL SOURCES a.cc b.cc)\nendif()",
                      "set(all a.cc)\ntutti_library(x SOURCES ${all} b.cc)",
                      "add_library(x OBJECT a.cc b.cc $<TARGET_OBJECTS:y>)\ntutti_wants_precompiled(x)"):
            self.of(cmake + "\n", "by the same target", **both)
        for cmake in ("tutti_library(x SOURCES a.cc)\ntutti_library(y SOURCES b.cc)",
                      "add_library(x SHARED a.cc b.cc)",
                      "function(f x)\n  tutti_library(${x} SOURCES a.cc b.cc)\nendfunction()",
                      "tutti_library(x SOURCES a.cc b.cc)\n"
                      'set_source_files_properties(b.cc PROPERTIES COMPILE_OPTIONS "-O3;-x")',
                      "tutti_library(x SOURCES a.cc b.cc)\n"
                      "set_source_files_properties(b.cc PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)",
                      "# tutti_library(x SOURCES a.cc b.cc)"):
            self.of(cmake + "\n", **both)
        self.of("tutti_library(x SOURCES a.cc ${unknown}.cc)\n", "x: the lint cannot read the source worker/${unknown}.cc",
                a=FUNCTION)


if __name__ == "__main__":
    unittest.main()
