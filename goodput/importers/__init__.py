"""What does their log say? One file a foreign format: the raw columns, and one map raw -> ours."""
