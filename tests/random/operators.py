"""All operators that random graphs may have (registered.py), families in the order of these imports."""
import elementwise  # noqa: F401
import movement  # noqa: F401
import layers  # noqa: F401
import sequences  # noqa: F401
import control
from registered import OPERATORS, operator  # noqa: F401

operator(2)(control.if_)
operator(2)(control.loop)
operator(1)(control.scan)


@operator(.5)
def several_ifs(g):
    for _ in range(int(g.r.integers(2, 5))):
        control.if_(g)
