"""Prints ngmi's summary from the output of `ngmi record --json` and of Firefox, in which it is the only JSON object.

summary.py OUTPUT
"""

import json
import sys


def summary(text):
    for start in (index for index, character in enumerate(text) if character == "{"):
        try:
            value = json.JSONDecoder().raw_decode(text[start:])[0]
        except ValueError:
            continue
        if isinstance(value, dict) and value:
            return value
    sys.exit("no summary in JSON was printed")


with open(sys.argv[1], encoding="utf-8", errors="replace") as output:
    print(json.dumps(summary(output.read())))
