"""What runs the cells of one context, whatever their language is."""


class Ended(Exception):
    """The kernel is gone, and its state with it."""


class Unavailable(Exception):
    """The sandbox has no kernel for a language, or the kernel cannot do something."""

    def __init__(self, language, what=None):
        if what is None:
            message = f"this sandbox cannot run {language}: {NEEDED.get(language, 'no Jupyter kernel for it is installed')}"
        else:
            message = f"{language} has no {what} here"
        super().__init__(message)


NEEDED = {
    "python": "install python3-ipykernel in its template, or use one made by `warren template build code-interpreter`",
    "javascript": "install nodejs in its template",
    "typescript": "install nodejs in its template",
    "bash": "install bash in its template",
    "java": "install default-jdk-headless in its template",
    "r": "install r-cran-irkernel in its template",
}

# Other names of languages.
ALIASES = {"js": "javascript", "ts": "typescript", "py": "python", "python3": "python", "sh": "bash", "node": "javascript"}


def language_of(name):
    """The language of that name; `python` if none is named."""
    name = (name or "python").strip().lower()
    return ALIASES.get(name, name)
