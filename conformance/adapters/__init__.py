"""Those that can be asked, behind one interface: see ``conformance.judge.Adapter``."""
