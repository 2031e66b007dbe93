"""How many pods with security groups of their own a type can run, which the VPC resource controller's branch interfaces limit.

EC2's API does not report them; these are the controller's published limits (August 2026). A type that is not listed supports
none.
"""

from __future__ import annotations

from functools import cache
from typing import Final

POD_ENI: Final = "vpc.amazonaws.com/pod-eni"

_TABLE: Final = """
c5n c8a c8i c8id gr6f m8a m8i m8id r8a r8i r8id u-3tb1 u7i-12tb u7i-6tb u7i-8tb x8i :
    medium=4 large=9 xlarge=18 2xlarge=38 4xlarge=54 8xlarge=82 9xlarge=54 12xlarge=110 16xlarge=106 18xlarge=107
    24xlarge=106 32xlarge=98 48xlarge=98 56xlarge=6 64xlarge=98 96xlarge=98 112xlarge=107 224xlarge=107 metal=107
    metal-24xl=106 metal-48xl=98 metal-96xl=98
c8ib c8ine gr6 m8ib m8idb m8idn m8in m8ine mac-m3ultra mac-m4 mac-m4max mac-m4pro mac1 mac2 mac2-m1ultra mac2-m2
mac2-m2pro r8ib r8idb r8idn r8in u7in-16tb u7in-24tb u7in-32tb :
    large=8 xlarge=18 2xlarge=38 4xlarge=54 8xlarge=84 12xlarge=110 16xlarge=106 24xlarge=106 32xlarge=106
    48xlarge=98 96xlarge=98 224xlarge=106 metal=6
c8in :
    large=8 xlarge=18 2xlarge=38 4xlarge=54 8xlarge=84 12xlarge=110 16xlarge=106 24xlarge=106 32xlarge=106
    48xlarge=98 96xlarge=98 metal-48xl=98 metal-96xl=98
c6a c6i c6id c7a c7i dl2q f2 g6 inf2 m6a m6i m6id m7a m7i p3dn r6a r6i r6id r7a r7i r7iz x2idn :
    medium=4 large=9 xlarge=18 2xlarge=38 4xlarge=54 6xlarge=84 8xlarge=84 12xlarge=114 16xlarge=107 24xlarge=107
    32xlarge=107 48xlarge=107 metal=107 metal-16xl=107 metal-24xl=107 metal-32xl=107 metal-48xl=107
c5 c5a c5ad c5d c6g c6gd c6gn c7g c7gd c7gn c8g c8gd g5g i4g i8g im4gn is4gen m5a m5ad m5d m5dn m5n m6g m6gd m7g m7gd
m8g m8gd r5a r5ad r5b r5d r5dn r5n r6g r6gd r7g r7gd r8g r8gd trn1n vt1 x8g :
    medium=4 large=9 xlarge=18 2xlarge=38 3xlarge=38 4xlarge=54 6xlarge=54 8xlarge=54 9xlarge=54 12xlarge=54
    16xlarge=107 18xlarge=107 24xlarge=107 32xlarge=120 48xlarge=107 metal=107 metal-24xl=107 metal-48xl=107
c8gb c8gn m8gb m8gn r8gb r8gn :
    medium=4 large=9 xlarge=18 2xlarge=38 4xlarge=54 8xlarge=52 12xlarge=50 16xlarge=106 24xlarge=98 48xlarge=98
a1 i7i :
    medium=10 large=9 xlarge=18 2xlarge=38 4xlarge=54 8xlarge=84 12xlarge=84 16xlarge=107 24xlarge=107
    48xlarge=107 metal=54 metal-24xl=107 metal-48xl=107
i7ie :
    large=19 xlarge=27 2xlarge=27 3xlarge=27 6xlarge=54 12xlarge=54 18xlarge=107 24xlarge=107 48xlarge=107
    metal-24xl=107 metal-48xl=107
i8ge :
    large=19 xlarge=27 2xlarge=27 3xlarge=25 6xlarge=52 12xlarge=50 18xlarge=106 24xlarge=106 48xlarge=98
    metal-24xl=106 metal-48xl=98
m9g m9gd :
    medium=4 large=9 xlarge=18 2xlarge=38 4xlarge=54 8xlarge=52 12xlarge=50 16xlarge=106 24xlarge=98 48xlarge=98
    metal-48xl=98
c6in m6idn m6in p5e p5en p6-b200 p6-b300 r6idn r6in :
    large=9 xlarge=18 2xlarge=38 4xlarge=54 8xlarge=84 12xlarge=114 16xlarge=107 24xlarge=107 32xlarge=106
    48xlarge=120 metal=106
i4i :
    xlarge=6 2xlarge=26 4xlarge=52 8xlarge=112 12xlarge=112 16xlarge=120 24xlarge=105 32xlarge=120 metal=120
m5 r5 :
    large=9 xlarge=18 2xlarge=38 4xlarge=54 8xlarge=54 12xlarge=54 16xlarge=107 24xlarge=107 metal=120
m8azn p5 trn1 x8aedz :
    medium=3 large=8 xlarge=18 2xlarge=17 3xlarge=34 4xlarge=58 6xlarge=54 12xlarge=106 24xlarge=106 32xlarge=82
    48xlarge=120 metal-12xl=106 metal-24xl=106
p4d p4de x2gd :
    medium=10 large=9 xlarge=18 2xlarge=38 4xlarge=54 8xlarge=54 12xlarge=54 16xlarge=107 24xlarge=62 metal=107
g5 :
    xlarge=4 2xlarge=17 4xlarge=34 8xlarge=84 12xlarge=107 16xlarge=114 24xlarge=107 48xlarge=115
g6e g6f :
    large=10 xlarge=18 2xlarge=38 4xlarge=54 8xlarge=84 12xlarge=112 16xlarge=107 24xlarge=102 48xlarge=82
i3en :
    large=5 xlarge=12 2xlarge=28 3xlarge=38 6xlarge=54 12xlarge=54 24xlarge=107 metal=107
x2iedn :
    xlarge=11 2xlarge=27 4xlarge=54 8xlarge=114 16xlarge=107 24xlarge=107 32xlarge=107 metal=107
c7i-flex m7i-flex :
    large=3 xlarge=8 2xlarge=18 4xlarge=34 8xlarge=54 12xlarge=114 16xlarge=107
c8i-flex m8i-flex r8i-flex :
    large=3 xlarge=8 2xlarge=18 4xlarge=34 8xlarge=52 12xlarge=110 16xlarge=106
g4dn :
    xlarge=39 2xlarge=39 4xlarge=59 8xlarge=58 12xlarge=54 16xlarge=118 metal=107
m5zn x2iezn :
    large=13 xlarge=29 2xlarge=62 3xlarge=92 4xlarge=114 6xlarge=114 8xlarge=114 12xlarge=107 metal=107
z1d :
    large=13 xlarge=28 2xlarge=58 3xlarge=54 6xlarge=54 12xlarge=107 metal=107
d3en :
    xlarge=24 2xlarge=58 4xlarge=118 6xlarge=118 8xlarge=118 12xlarge=119
g7 :
    2xlarge=38 4xlarge=54 8xlarge=82 12xlarge=110 24xlarge=98 48xlarge=98
g7e :
    2xlarge=120 4xlarge=120 8xlarge=120 12xlarge=120 24xlarge=120 48xlarge=120
d3 :
    xlarge=42 2xlarge=92 4xlarge=118 8xlarge=119
inf1 :
    xlarge=38 2xlarge=38 6xlarge=54 24xlarge=111
"""
"""Families that share one set of limits, a colon, then size=limit."""


def branch_interfaces(instance_type: str) -> int:
    """Branch interfaces of a type, zero where it has none."""
    family, _, size = instance_type.partition(".")
    return _limits().get(family, {}).get(size, 0)


@cache
def _limits() -> dict[str, dict[str, int]]:
    limits: dict[str, dict[str, int]] = {}
    families: list[str] = []
    sizes: dict[str, int] = {}
    for word in _TABLE.split():
        if "=" in word:
            size, _, count = word.partition("=")
            sizes[size] = int(count)
        elif word == ":":
            sizes = {}
            limits |= dict.fromkeys(families, sizes)
            families = []
        else:
            families.append(word)
    return limits
