"""Build qop's documentation site: the pages of docs/ with search, and sample reports."""
