"""Numbers that set an algorithm up: `theory` as the paper proves them, `practice` as they can be used, `estimates` as
they are measured.
"""
