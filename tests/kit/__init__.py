"""What tests share: fakes, reference models, conformance suites, and readers of this repository's own source."""
