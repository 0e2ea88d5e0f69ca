"""Fisher's combination where it saturates: the logarithm of a chi-square tail."""

from __future__ import annotations

import math


def log_tail(half: float, pairs: int) -> float:
    r"""Return :math:`\log P(\chi^2_{2n} \ge 2h)`.

    Parameters
    ----------
    half : float
        Half of the statistic, *h*.
    pairs : int
        Half of the degrees of freedom, *n*.

    Notes
    -----
    :math:`e^{-h} \sum_{i<n} h^i / i!`, summed in the log domain: the filters
    that use it print 0 or 1 once it leaves the range of their floats.

    Examples
    --------
    >>> round(log_tail(2.0, 1), 12)
    -2.0
    """
    if pairs <= 0 or half <= 0:
        return 0.0
    terms = [i * math.log(half) - math.lgamma(i + 1) for i in range(pairs)]
    most = max(terms)
    total = math.log(sum(math.exp(term - most) for term in terms))
    return min(0.0, most + total - half)
