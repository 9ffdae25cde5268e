"""The conformance table: engines and versions by obligation, from the reports of their audits."""
