"""Reading what a run's processes printed: which files there are, pages of any of them, search, errors, new lines.

Every file may be gigabytes long, without a line end, cut, replaced or deleted meanwhile: memory is that of a few pages.
"""
