"""From a claim and its EC2NodeClass to what EC2 is asked: launch template, user data, fleet request. Pure rendering."""
