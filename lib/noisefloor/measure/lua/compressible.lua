-- Tables whose files compress about as well as those of the study on encrypted backups (7.6 to 1): 22
-- random digits a row, and words. With InnoDB's own bytes a row (transaction, undo, index) that is 7.3
-- to 1 as they are loaded, 8.3 once copied; 55 digits make it 4.6. The column's other values stay as
-- sysbench makes them. Run, it is oltp_read_write, whose new rows are like the old ones.
require("oltp_read_write")

function get_c_value()
   return sysbench.rand.string("###########-###########") ..
      ", which differs; the rest of the row is equal."
end

function get_pad_value()
   return "equal in all rows, as addresses and states often are"
end
