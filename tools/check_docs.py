"""Checks what documents say against the tree.

    check_docs.py [ROOT]

- Links to files and to headings resolve.
- A code block that names a file, ```cpp examples/01_bias_gelu.cpp, holds that file or consecutive lines of it.
- docs/architecture.md has a row for each folder of src/ and for nothing else.
- docs/environment.md has a row for each variable src/core/options.cpp reads, and no other source reads any.

Prints one line a mistake and exits with 1 when there is any.
"""

import pathlib
import re
import sys

FENCE = re.compile(r"^(?P<mark>```+|~~~+)\s*(?P<language>[\w+-]*)\s*(?P<file>\S*)\s*$")
LINK = re.compile(r"(?<!!)\[[^\]\[]*\]\(([^)\s]+)\)|!\[[^\]]*\]\(([^)\s]+)\)")
VARIABLE = re.compile(r'"([A-Z][A-Z0-9_]+)"')


def documents(root):
    return sorted([*root.glob("*.md"), *root.glob("docs/**/*.md"), *root.glob("third_party/*.md")])


def blocks(text):
    """Yields (line number, named file or "", lines) of each fenced code block."""
    mark = ""
    for number, line in enumerate(text.splitlines(), 1):
        if mark:
            if line.strip() == mark:
                yield first, file, body
                mark = ""
            else:
                body.append(line.rstrip())
        elif match := FENCE.match(line):
            mark, file, first, body = match["mark"], match["file"], number, []


def prose(text):
    """The text with fenced blocks and inline code blanked, so that brackets in code are no links."""
    kept = []
    mark = ""
    for line in text.splitlines():
        match = FENCE.match(line)
        if mark or match:
            mark = "" if mark and line.strip() == mark else mark or match["mark"]
            line = ""
        kept.append(re.sub(r"`[^`]*`", "", line))
    return kept


def anchors(text):
    """The anchors a renderer makes of the headings."""
    found = set()
    for line in text.splitlines():
        if match := re.match(r"#+\s+(.*)", line):
            found.add(re.sub(r"[^\w\- ]", "", match[1].lower()).strip().replace(" ", "-"))
    return found


def check_links(root, path):
    name = path.relative_to(root)
    for number, line in enumerate(prose(path.read_text()), 1):
        for match in LINK.finditer(line):
            target, _, anchor = (match[1] or match[2]).partition("#")
            if re.match(r"[a-z]+:", target):
                continue
            file = (path.parent / target).resolve() if target else path
            if not file.exists():
                yield f"{name}:{number}: links to '{target}', which does not exist"
            elif anchor and file.suffix == ".md" and anchor not in anchors(file.read_text()):
                yield f"{name}:{number}: links to '#{anchor}', which is no heading of {file.name}"


def holds(file_lines, body):
    """True when `body` is a run of consecutive lines of a file."""
    return any(file_lines[i : i + len(body)] == body for i in range(len(file_lines) - len(body) + 1))


def check_blocks(root, path):
    name = path.relative_to(root)
    for number, file, body in blocks(path.read_text()):
        if not file:
            continue
        source = root / file
        if not source.is_file():
            yield f"{name}:{number}: the code block names '{file}', which does not exist"
        elif not holds([line.rstrip() for line in source.read_text().splitlines()], body):
            yield f"{name}:{number}: the code block is not in '{file}', which it names: copy it again"


def check_architecture(root):
    page = root / "docs/architecture.md"
    if not page.is_file():
        return ["docs/architecture.md: does not exist"]
    listed = set(re.findall(r"^\|\s*`src/([\w./]+?)/?`", page.read_text(), re.MULTILINE))
    existing = {path.name for path in (root / "src").iterdir() if path.is_dir() or path.name == "gemm.cpp"}
    return [f"docs/architecture.md: has no row for src/{stage}" for stage in sorted(existing - listed)] + [
        f"docs/architecture.md: has a row for src/{stage}, which does not exist" for stage in sorted(listed - existing)
    ]


def check_environment(root):
    reader = root / "src/core/options.cpp"
    page = root / "docs/environment.md"
    read = set(VARIABLE.findall(reader.read_text()))
    documented = set(re.findall(r"^\|\s*`(\w+)`", page.read_text() if page.is_file() else "", re.MULTILINE))
    for variable in sorted(read - documented):
        yield f"docs/environment.md: has no row for {variable}, which src/core/options.cpp reads"
    for variable in sorted(documented - read):
        yield f"docs/environment.md: has a row for {variable}, which src/core/options.cpp does not read"
    for path in sorted((root / "src").rglob("*")):
        if path.is_file() and path != reader and "getenv" in path.read_text():
            yield f"{path.relative_to(root)}: reads the environment: only src/core/options.cpp does"


def check(root):
    """All mistakes under `root`, as sentences."""
    mistakes = []
    for path in documents(root):
        mistakes += [*check_links(root, path), *check_blocks(root, path)]
    return mistakes + [*check_architecture(root), *check_environment(root)]


if __name__ == "__main__":
    found = check(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "."))
    print("\n".join(found) if found else "docs: links, code blocks, folders and variables agree with the tree")
    sys.exit(bool(found))
