# For pyright only: pandas' own annotations make `table["column"]` a union of everything, which
# pyright then refuses at nearly every use. Left unchecked here; the tests check the values.
from typing import Any

def __getattr__(name: str) -> Any: ...
