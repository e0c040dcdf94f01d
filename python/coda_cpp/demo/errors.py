"""What the demo says when it cannot run."""


class DemoError(Exception):
    """Something the user can cure: one sentence that names what was got, what was expected and what to do."""
