from planner.table import main

main()
