"""Damaged files, strange options and blocked streams through the real commands: `make fuzz`.

`corpus` makes good inputs once, `case` makes one case from its number, `engine` runs it with limits, `oracle` judges
what happened, `__main__` repeats that until the time is over and keeps the finds.
"""
