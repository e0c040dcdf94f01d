"""Checks that files and functions stay small enough to read at once.

    check_sizes.py [ROOT]

Headers up to 200 lines, sources (and .inl, which they include) up to 400, functions up to 60; our own code only. Prints one line a mistake and exits
with 1 when there is any.
"""

import ast
import pathlib
import re
import sys

FOLDERS = ["include", "src", "python", "tests", "examples", "bench", "tools"]
FILE_LINES = {".h": 200, ".inl": 400, ".cuh": 400, ".cpp": 400, ".py": 400}
FUNCTION_LINES = 60

# What is no code: comments, raw strings, strings and characters (not the ' of 1'000).
NO_CODE = re.compile(
    r"""//[^\n]* | /\*.*?\*/ | R"(?P<tag>[^(\s]*)\(.*?\)(?P=tag)" | "(?:\\.|[^"\\\n])*" | (?<![0-9a-zA-Z])'(?:\\.|[^'\\\n])+'""",
    re.DOTALL | re.VERBOSE,
)
# Openings that hold functions instead of being one.
HOLDER = re.compile(r"^(\s*(inline|export)\s+)*\s*(namespace|extern)\b|\b(struct|class|union|enum)\b(?![^{]*\)\s*[^{:]*$)")

ATTRIBUTE = re.compile(r"alignas\s*\([^)]*\)|__attribute__\s*\(\(.*?\)\)|\[\[.*?\]\]")


def blank(text):
    """The text with everything that is no code, and every preprocessor line, blanked; line numbers stay."""
    text = NO_CODE.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)
    lines = []
    continued = False
    for line in text.split("\n"):
        directive = continued or line.lstrip().startswith("#")
        continued = directive and line.endswith("\\")
        lines.append("" if directive else line)
    return "\n".join(lines)


def cpp_functions(text):
    """Yields (first line, last line, heading) of each outermost function body with its heading."""
    code = blank(text)
    depth_in_function = 0
    start = 0  # where the heading of the next brace begins
    first = 0
    heading = ""
    for match in re.finditer(r"[{};]", code):
        mark, at = match[0], match.start()
        if depth_in_function:
            depth_in_function += {"{": 1, "}": -1, ";": 0}[mark]
            if depth_in_function == 0:
                yield first, code.count("\n", 0, at) + 1, heading
        elif mark == "{":
            depth_in_function = 0 if HOLDER.search(ATTRIBUTE.sub("", code[start:at])) else 1
            # After `: a_{1}` of a constructor comes `, b_{2}` or the body: still the same function.
            if depth_in_function and not re.match(r"\s*(,|$)", code[start:at]):
                heading = " ".join(code[start:at].split())
                first = code.count("\n", 0, at - len(code[start:at].lstrip())) + 1
        start = at + 1


def name_of(heading):
    """The name in a function's heading, for the message."""
    match = re.search(r"([~\w:]+|operator\S+)\s*\(", heading)
    return match[1] if match else heading[-40:]


def cpp_lengths(text):
    for first, last, heading in cpp_functions(text):
        if "(" in heading and heading[-1] not in "=(,[":  # else a table
            yield first, last - first + 1, name_of(heading)


def python_lengths(text):
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.lineno, node.end_lineno - node.lineno + 1, node.name


def check_file(path, name):
    text = path.read_text()
    limit = FILE_LINES[path.suffix]
    lines = len(text.splitlines())
    if lines > limit:
        yield f"{name}: has {lines} lines, expected at most {limit}: split it by what its parts do"
    lengths = python_lengths if path.suffix == ".py" else cpp_lengths
    for first, length, function in lengths(text):
        if length > FUNCTION_LINES:
            yield f"{name}:{first}: {function} has {length} lines, expected at most {FUNCTION_LINES}: name its parts"


def check(root):
    """All mistakes under `root`, as sentences."""
    mistakes = []
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            if path.is_file() and path.suffix in FILE_LINES:
                mistakes += check_file(path, path.relative_to(root))
    return mistakes


if __name__ == "__main__":
    found = check(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "."))
    print("\n".join(found) if found else "sizes: every file and function is within its limit")
    sys.exit(bool(found))
