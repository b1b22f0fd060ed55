"""The messages and services of proto/, generated.

The library protobuf imports its implementation in Python also where the compiled one (upb) is in use: a tenth of a
command's start in plain Python. It is loaded on its first use here, which there is none of.
"""

import sys
from importlib.util import LazyLoader, find_spec, module_from_spec

from google.protobuf import internal
from google.protobuf.internal import api_implementation

_UNUSED = "google.protobuf.internal.python_message"


def _load_on_use() -> None:
    spec = find_spec(_UNUSED)
    if spec is None or spec.loader is None:
        return  # a version of the library without it
    spec.loader = LazyLoader(spec.loader)
    module = module_from_spec(spec)
    sys.modules[_UNUSED] = module
    setattr(internal, _UNUSED.rpartition(".")[2], module)
    spec.loader.exec_module(module)


if api_implementation.Type() == "upb" and _UNUSED not in sys.modules:
    _load_on_use()
