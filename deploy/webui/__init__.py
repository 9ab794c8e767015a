"""Open WebUI from outside: its interface, its page, installing the plugins."""
