"""Drawing: diagrams, tables and pages that load nothing from anywhere."""
