"""What did the filter say of one message before it learned it?"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What the filter said of one message before it learned it.

    Parameters
    ----------
    gold : str
        The label that the stream gives.
    decision : str
        The filter's decision: `spam`, `ham` or `unsure`.
    log_odds : float
        Unit: nats.
    probability : float
        Probability of spam.

    Examples
    --------
    >>> Result(gold="ham", decision="ham", log_odds=-2.5, probability=0.08).json_line()
    '{"gold": "ham", "decision": "ham", "log_odds": -2.5, "probability": 0.08}'
    """

    gold: str
    decision: str
    log_odds: float
    probability: float

    def json_line(self, **more: str) -> str:
        """Return the result as one line of JSON, without the line's end.

        Parameters
        ----------
        **more : str
            What else there is to say of the message.

        Notes
        -----
        JSON has no infinity: infinite log-odds are ``null``, and the
        probability beside them, 0 or 1, tells which.
        """
        return json.dumps(
            {
                **more,
                "gold": self.gold,
                "decision": self.decision,
                "log_odds": self.log_odds if math.isfinite(self.log_odds) else None,
                "probability": self.probability,
            }
        )
