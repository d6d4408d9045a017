"""Rows to one page: tables, figures, settings. It needs the extra `cli`."""
