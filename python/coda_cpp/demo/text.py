"""English prose that every CPython carries: the language reference in `pydoc_data.topics`, without its markup."""

import re

# Read first, because they are the longest stretches of plain prose; the other topics follow by name.
_FIRST = ("execmodel", "exceptions", "context-managers", "import", "async")
_PROMPT_TOPIC = "objects"
_SHORTEST_PARAGRAPH = 160  # characters; shorter ones are captions and table cells


def paragraphs() -> list[str]:
    """The prose paragraphs of all topics but the one `prompt` is taken from, each once, always in the same order."""
    topics = _topics()
    rest = sorted(set(topics) - set(_FIRST) - {_PROMPT_TOPIC})
    found: dict[str, None] = {}  # keeps order; topics quote each other
    for name in (*_FIRST, *rest):
        found.update(dict.fromkeys(prose_of(topics.get(name, ""))))
    return list(found)


def text() -> str:
    """All prose paragraphs, one blank line between two."""
    return "\n\n".join(paragraphs())


def prompt(sentences: int = 2) -> str:
    """The beginning of a paragraph that `text` does not hold, for the model to continue."""
    topics = _topics()
    paragraph = (prose_of(topics.get(_PROMPT_TOPIC, "")) or prose_of("\n\n".join(topics.values())))[0]
    return " ".join(re.split(r"(?<=[.!?])\s+", paragraph)[:sentences])


def prose_of(page: str) -> list[str]:
    """The paragraphs of a page of reStructuredText-like plain text that are prose, on one line each, markup removed."""
    return [_plain(block) for block in re.split(r"\n[ \t]*\n", page) if _is_prose(block)]


def _topics() -> dict[str, str]:
    from pydoc_data import topics

    return topics.topics


def _plain(block: str) -> str:
    line = " ".join(block.split())
    line = re.sub(r"(?<![\w*])\*{1,2}([^*\s][^*]*?)\*{1,2}(?![\w*])", r"\1", line)  # *emphasis*, **strong**
    line = re.sub(r"``([^`]+)``", r"\1", line)
    return re.sub(r"\s*\[\d+\]", "", line)  # footnote marks


def _is_prose(block: str) -> bool:
    lines = block.strip("\n").split("\n")
    if any(line.startswith((" ", "\t", "* ", "- ", "+", "|", "#", ".. ")) for line in lines):
        return False
    line = _plain(block)
    if len(line) < _SHORTEST_PARAGRAPH or not line[0].isupper() or line[-1] not in ".!?":
        return False
    return "::=" not in line and "|" not in line
