#!/usr/bin/env python3
"""What nothing uses: functions, #include lines, and what clang-tidy says of one file at a time.

    tools/lint --deep [PATH…]          as tools/lint starts it
    tools/unused.py --no-clang-tidy    the first two alone, in seconds

Names are compared as text. What is reported is unused; what shares its name with something that is
used is not reported.
"""
import argparse
import collections
import concurrent.futures
import json
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tests", "lint"))
from tree import Tree  # noqa: E402

CHECKS = ("-*,misc-unused-using-decls,misc-unused-alias-decls,clang-diagnostic-unused-*,"
          "clang-diagnostic-unneeded-*")
WARNINGS = ("unused-function", "unused-member-function", "unused-private-field",
            "unused-const-variable", "unused-template", "unused-macros", "unused-local-typedef",
            "unused-lambda-capture", "unneeded-internal-declaration", "unneeded-member-function")

# Names of the standard library by header; a header that is not here is not judged.
STANDARD = {
    "algorithm": r"(all_of|any_of|none_of|find|find_if|find_if_not|find_first_of|find_end|count|count_if|equal|mismatch"
                 r"|search|copy|copy_n|copy_if|copy_backward|move_backward|fill|fill_n|transform|generate|generate_n"
                 r"|remove|remove_if|replace|replace_if|unique|reverse|rotate|shuffle|sample|partition\w*|stable_partition"
                 r"|sort|stable_sort|partial_sort|nth_element|is_sorted|lower_bound|upper_bound|equal_range"
                 r"|binary_search|merge|inplace_merge|includes|set_\w+|push_heap|pop_heap|make_heap|sort_heap|max"
                 r"|min|minmax|max_element|min_element|minmax_element|clamp|lexicographical_compare\w*|for_each"
                 r"|for_each_n|next_permutation|prev_permutation|adjacent_find|swap_ranges|ranges)",
    "array": r"(array|to_array)",
    "atomic": r"atomic\w*|memory_order\w*",
    "bit": r"bit_cast|popcount|countl_zero|countr_zero|countl_one|countr_one|bit_width|bit_ceil|bit_floor|has_single_bit"
           r"|rotl|rotr|endian",
    "cerrno": r"errno|E[A-Z]{3,}",
    "charconv": r"from_chars\w*|to_chars\w*|chars_format",
    "chrono": r"chrono",
    "cmath": r"(abs|fabs|sqrt|rsqrt|exp|exp2|expm1|log|log2|log10|log1p|pow|sin|cos|tan|tanh|floor|ceil|round|lround"
             r"|llround|trunc|nearbyint|rint|lrint|isnan|isinf|isfinite|signbit|copysign|fma|fmod|ldexp|frexp|nan"
             r"|nanf|nextafter|nexttoward|hypot|erf|INFINITY|NAN|fmax|fmin|ilogb|scalbn|remainder|HUGE_VAL\w*)f?",
    "condition_variable": r"condition_variable\w*|cv_status",
    "csignal": r"SIG[A-Z]+|signal|raise|sig_atomic_t|kill|sigaction",
    "cstddef": r"size_t|ptrdiff_t|byte|max_align_t|nullptr_t|offsetof",
    "cstdint": r"u?int(8|16|32|64|ptr|max|_fast\d+|_least\d+)_t|U?INT(8|16|32|64|MAX|PTR)_(MAX|MIN|C)|SIZE_MAX",
    "cstdio": r"\w*printf|FILE|f?puts|f?putc|fopen|fclose|fread|fwrite|fgets|fflush|stderr|stdout|stdin|perror|remove"
              r"|rename|getc|EOF|snprintf|fileno|setvbuf|popen|pclose",
    "cstdlib": r"getenv|exit|_Exit|abort|atexit|quick_exit|malloc|calloc|free|realloc|aligned_alloc|strto\w+|ato[ilf]"
               r"|setenv|unsetenv|system|mkdtemp|mkstemp|EXIT_\w+|abs|div|rand|srand|size_t|posix_memalign|realpath",
    "cstring": r"mem(cpy|move|set|cmp|chr|mem)|str(len|cmp|ncmp|chr|rchr|str|error|signal|ncpy|cpy|dup|error_r)",
    "ctime": r"time|time_t|tm|gmtime\w*|localtime\w*|strftime|clock_gettime|timespec|mktime|timegm",
    "deque": r"deque",
    "exception": r"exception\w*|terminate\w*|set_terminate|uncaught_exceptions|current_exception|rethrow_exception",
    "filesystem": r"filesystem",
    "fstream": r"\w*fstream",
    "functional": r"function|bind|bind_front|ref|cref|hash|less\w*|greater\w*|equal_to|plus|minus|multiplies|invoke|mem_fn"
                  r"|not_fn|identity|reference_wrapper",
    "future": r"future|promise|async|packaged_task|shared_future|future_status|launch",
    "initializer_list": r"initializer_list",
    "iomanip": r"set(w|fill|precision|base)|hex|fixed|quoted|put_time|get_time",
    "iostream": r"c(out|err|in|log)",
    "iterator": r"\w*iterator\w*|back_inserter|inserter|next|prev|advance|distance|begin|end|size|data|ssize|empty",
    "limits": r"numeric_limits",
    "list": r"list",
    "map": r"map|multimap",
    "memory": r"unique_ptr|shared_ptr|weak_ptr|make_unique\w*|make_shared\w*|enable_shared_from_this|allocator\w*"
              r"|addressof|align|pointer_traits|destroy\w*|construct_at|\w*_pointer_cast|assume_aligned|default_delete"
              r"|uninitialized_\w+",
    "mutex": r"\w*mutex|lock_guard|unique_lock|scoped_lock|once_flag|call_once|adopt_lock|defer_lock|try_to_lock",
    "new": r"bad_alloc|nothrow|align_val_t|launder|new|hardware_\w+",
    "numeric": r"accumulate|iota|reduce|inner_product|partial_sum|gcd|lcm|midpoint|exclusive_scan|inclusive_scan|adjacent_difference"
               r"|transform_reduce",
    "optional": r"optional|nullopt\w*|make_optional|bad_optional_access",
    "ostream": r"\w*ostream|endl|flush",
    "queue": r"\w*queue",
    "random": r"\w*_distribution|mt19937\w*|minstd_rand0?|random_device|\w*_engine|seed_seq",
    "regex": r"\w*regex\w*|smatch|cmatch",
    "set": r"set|multiset",
    "shared_mutex": r"shared_\w*mutex|shared_lock",
    "span": r"span|as_bytes|as_writable_bytes|dynamic_extent",
    "sstream": r"\w*stringstream|\w*stringbuf",
    "stdexcept": r"\w*_error|out_of_range|invalid_argument|length_error|domain_error",
    "string": r"\w*string|to_string|sto[a-z]+|getline|char_traits|npos",
    "string_view": r"\w*string_view|sv",
    "system_error": r"error_code|error_condition|system_error|errc|\w*_category",
    "thread": r"j?thread|this_thread|hardware_concurrency",
    "tuple": r"tuple\w*|tie|make_tuple|forward_as_tuple|apply|ignore|get",
    "type_traits": r"\w+_v|is_\w+|enable_if\w*|conditional\w*|decay\w*|remove_\w+|add_\w+|underlying_type\w*|invoke_result\w*"
                   r"|true_type|false_type|integral_constant|void_t|common_type\w*|make_(un)?signed\w*|type_identity\w*",
    "typeinfo": r"type_info|typeid",
    "unordered_map": r"unordered_(multi)?map",
    "unordered_set": r"unordered_(multi)?set",
    "utility": r"move|forward|pair|make_pair|swap|exchange|declval|as_const|in_place\w*|index_sequence\w*"
               r"|make_index_sequence|integer_sequence|get|cmp_\w+|piecewise_construct|in_range|to_underlying",
    "variant": r"variant\w*|visit|holds_alternative|get|get_if|monostate|bad_variant_access",
    "vector": r"vector",
}
STANDARD = {name: re.compile(rf"\b(?:{pattern})\b") for name, pattern in STANDARD.items()}

_NAME = re.compile(r"[A-Za-z_]\w*")
_DECLARED = re.compile(
    r"\b(?:class|struct|union|enum(?:\s+class)?)\s+(?:[A-Z_]+(?:\([^)]*\))?\s+)?(?P<type>\w+)[^;()]*?\{"
    r"|\busing\s+(?P<alias>\w+)\s*="
    r"|\btypedef\b[^;]*?(?P<typedef>\w+)\s*;"
    r"|\b(?P<constant>k[A-Z]\w*)\b"
    r"|(?<![.>:\w])(?P<function>~?[A-Za-z_]\w*)\s*\("
    r"|\b(?P<variable>[a-z_]\w*)\s*(?:=|;|\{)"
    r"|\b(?P<inline>[A-Za-z_]\w*)\s*=", re.DOTALL)
_DEFINED = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", re.MULTILINE)
_DIRECTIVE = re.compile(r"^[ \t]*#[ \t]*(?!include)(?:[^\\\n]|\\.)*", re.MULTILINE | re.DOTALL)
_KEYWORDS = {"if", "for", "while", "switch", "return", "sizeof", "alignof", "decltype", "static_assert", "noexcept",
             "explicit", "operator", "requires", "defined", "catch", "default", "delete", "const", "true", "false", "nullptr",
             "0", "this", "override", "final", "i", "n", "a", "b", "x"}


def declared_names(text, code):
    names = {name for match in _DECLARED.finditer(code) for name in match.groupdict().values() if name}
    names |= set(_DEFINED.findall(text))
    return names - _KEYWORDS


def directives(text):
    """Macros use names too."""
    return "\n".join(_DIRECTIVE.findall(text))


class Includes:
    """#include lines none of whose names the file has. A header's names are those declared in it."""

    def __init__(self, tree):
        self.tree = tree
        self._declared = {}

    def problems(self, path):
        source = self.tree.source(path)
        code = source.code + "\n" + directives(source.text)
        words = set(_NAME.findall(code))
        stem = path.rsplit(".", 1)[0]
        for line, header in source.includes():
            if header.rsplit(".", 1)[0] in (stem, stem.removesuffix("_test")):
                continue
            if header in STANDARD:
                used = STANDARD[header].search(code)
            else:
                names = self._names(header)
                used = not names or names & words
            if not used:
                yield f"{path}:{line}: nothing of {header} is used"

    def _names(self, header):
        """What `header` declares; nothing when it cannot be read or only includes others."""
        if header not in self._declared:
            self._declared[header] = set()
            if header in self.tree.file_set:
                source = self.tree.source(header)
                self._declared[header] = declared_names(source.text, source.code)
            elif header.startswith("absl/") and os.path.exists(path := "/usr/include/" + header):
                with open(path, encoding="utf-8", errors="replace") as file:
                    text = file.read()
                self._declared[header] = declared_names(text, re.sub(r"//[^\n]*", "", text))
        return self._declared[header]


def unused_functions(tree):
    """Functions whose name stands nowhere but in their own declaration and definition."""
    places = collections.defaultdict(list)
    for path in tree.cpp_files():
        source = tree.source(path)
        for name in _NAME.findall(source.code):
            places[name].append(path)
        for name in _NAME.findall(directives(source.text)):
            places[name].append(path)
    for path in tree.cpp_files():
        for definition in tree.outline(path).definitions:
            name = definition.name.split("::")[-1]
            if definition.kind != "function" or not _NAME.fullmatch(name) or name == "main":
                continue
            found, stem = places[name], path.rsplit(".", 1)[0]
            declared_apart = path.endswith(".cc") and set(found) == {stem + ".h", path}
            alone = len(found) == 1 or (len(found) == 2 and declared_apart)
            if alone and not _is_called_from_outside(tree, path, name):
                yield f"{path}:{definition.line}: nothing calls {name}"


def _is_called_from_outside(tree, path, name):
    """By a library of others: as an override of its virtual function, or through the C linkage."""
    text = tree.source(path).text
    return bool(re.search(rf'extern "C"[^;]*\b{name}\b|\b{name}\([^;{{]*\boverride\b', text))


def tidy(command, folder):
    """clang-tidy's findings in one file; `command` is its entry of compile_commands.json."""
    done = subprocess.run(
        ["clang-tidy", "-p", folder, "--quiet", f"--checks={CHECKS}", "--header-filter=^" + re.escape(ROOT) + "/[a-z]",
         *(f"--extra-arg=-W{name}" for name in WARNINGS), "--extra-arg=-Wno-error", command["file"]],
        text=True, capture_output=True, cwd=command["directory"], check=False)
    found = [line.replace(ROOT + "/", "") for line in done.stdout.splitlines()
             if re.search(r": (warning|error): .*\[", line)]
    return [line for line in found if not line.startswith("/")]


def run_clang_tidy(folder, paths):
    with open(os.path.join(folder, "compile_commands.json"), encoding="utf-8") as file:
        commands = [command for command in json.load(file) if "/proto/gen/" not in command["file"]]
    commands = [command for command in commands
                if not paths or os.path.relpath(command["file"], ROOT).startswith(tuple(paths))]
    subprocess.run(["ninja", "-C", folder, "--quiet", "cmake_object_order_depends_target_tutti_grpc"], check=True)
    seen = set()
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for found in pool.map(lambda command: tidy(command, folder), commands):
            for line in found:
                if line not in seen:
                    seen.add(line)
                    yield line


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("paths", nargs="*", help="only what is below these")
    parser.add_argument("--build", help="folder of a configured build by clang")
    parser.add_argument("--no-clang-tidy", action="store_true")
    options = parser.parse_args()
    tree, total = Tree(ROOT), 0

    def report(lines):
        nonlocal total
        for line in lines:
            if not options.paths or line.startswith(tuple(options.paths)):
                total += 1
                print(line, flush=True)

    report(unused_functions(tree))
    includes = Includes(tree)
    report(line for path in tree.cpp_files() for line in includes.problems(path))
    if not options.no_clang_tidy:
        report(run_clang_tidy(os.path.abspath(options.build), options.paths))
    print(f"unused: {total} findings")
    return 1 if total else 0


if __name__ == "__main__":
    sys.exit(main())
