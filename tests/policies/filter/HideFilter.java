import org.apache.bookkeeper.mledger.Entry;
import org.apache.pulsar.broker.service.plugin.EntryFilter;
import org.apache.pulsar.broker.service.plugin.FilterContext;

/** Hides entries with the property "hide" from all subscriptions. */
public class HideFilter implements EntryFilter {
    @Override
    public FilterResult filterEntry(Entry entry, FilterContext context) {
        boolean hidden = context.getMsgMetadata() != null
            && context.getMsgMetadata().getPropertiesList().stream().anyMatch(one -> one.getKey().equals("hide"));
        return hidden ? FilterResult.REJECT : FilterResult.ACCEPT;
    }

    @Override
    public void close() {
    }
}
