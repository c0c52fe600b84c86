"""The figures of a report. Drawn with matplotlib, which is needed only here."""
