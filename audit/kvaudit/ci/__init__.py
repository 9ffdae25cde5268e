"""A report in the formats that continuous integration reads: JUnit XML, SARIF, and the summary of a GitHub job."""
