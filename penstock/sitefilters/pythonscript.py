"""A site's script in Python: its text as a module, and calls of its functions, whose errors name the file and the line."""

import importlib.abc
import importlib.util
import linecache
from collections.abc import Callable

from penstock.sitefilters.base import ERROR_CHARS_MAX, FilterFailed, FilterRefusal
from penstock.submitfilter import Refuse


class _Text(importlib.abc.SourceLoader):
    """A module's source, from memory."""

    def __init__(self, path: str, text: str) -> None:
        self._path = path
        self._text = text

    def get_filename(self, fullname: str) -> str:
        """Returns the file's path, for tracebacks."""
        return self._path

    def get_data(self, path: str | bytes) -> bytes:
        """Returns the text."""
        return self._text.encode()


class PythonScript:
    """A loaded script."""

    def __init__(self, path: str, text: str) -> None:
        """Raises FilterFailed; FilterRefusal, if the script refuses while it is loaded."""
        self.path = path
        spec = importlib.util.spec_from_loader("site_filter", _Text(path, text))
        if spec is None or spec.loader is None:
            raise FilterFailed(f"{path}: cannot be loaded")
        self._module = importlib.util.module_from_spec(spec)
        self.call(spec.loader.exec_module, self._module)
        linecache.clearcache()

    def functions(self, names: tuple[str, ...]) -> dict[str, Callable[..., object]]:
        """Returns those of the names that the script has."""
        return {name: getattr(self._module, name) for name in names if hasattr(self._module, name)}

    def call(self, function: Callable[..., object], *values: object) -> None:
        """Calls the site's code. Raises FilterRefusal, FilterFailed."""
        try:
            function(*values)
        except Refuse as error:
            raise FilterRefusal(str(error)) from None
        except SyntaxError as error:
            raise FilterFailed(f"{error.filename or self.path}:{error.lineno}: {error.msg}") from None
        except (Exception, SystemExit) as error:  # noqa: BLE001 (whatever the site's code does is its failure)
            raise FilterFailed(self._described(error)) from None

    def _described(self, error: BaseException) -> str:
        line, at = 0, error.__traceback__
        while at is not None:
            if at.tb_frame.f_code.co_filename == self.path:
                line = at.tb_lineno
            at = at.tb_next
        return f"{self.path}:{line}: {type(error).__name__}: {error}"[:ERROR_CHARS_MAX]
