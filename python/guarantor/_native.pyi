"""The native module. Its functions are private: use those of `guarantor`."""

__version__: str
