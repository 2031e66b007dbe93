"""The embedded AWS account: moto, with our own instances, fleets, prices and capacity in place of moto's."""
