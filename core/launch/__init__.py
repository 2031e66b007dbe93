"""From a claim and its EC2NodeClass to what EC2 is asked: user data, launch templates, the fleet request. Pure rendering.

candidates → images → user_data → template → fleet;   `render` puts them together
"""
