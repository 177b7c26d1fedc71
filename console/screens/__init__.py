"""The screens of the Textual app, one a file. They draw and ask; what is true comes from the agent."""
