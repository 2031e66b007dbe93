"""A fleet played forward over recorded looks: what would run, cost and move had something else been asked for."""
